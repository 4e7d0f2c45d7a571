"""Where traces of turns are sent, as the standard variables of OpenTelemetry say."""

from collections.abc import Mapping

import structlog

from navi.adapters.postgres.leader_lock import TRACES_LOCK, PostgresLeaderLock
from navi.adapters.postgres.trace_checkpoint import PostgresTraceCheckpoint
from navi.application.followers.export_traces import ExportDelays, ExportTraces
from navi.bootstrap.store import Store
from navi.domain.vocabulary.errors import BadInput

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

log = structlog.get_logger()


def trace_export(environment: Mapping[str, str], store: Store) -> ExportTraces | None:
    """The follower that sends traces; None where no endpoint is set.

    Raises:
        BadInput: a variable is not understood.
    """
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or not any(environment.get(name, "").strip() for name in ENDPOINTS):
        return None
    try:
        # Only here: it is an extra, and takes a quarter of a second to import.
        from navi.adapters.traces.otlp_exporter import OtlpExporter
    except ImportError as error:
        # Whoever runs many services may set these variables for all of them.
        log.warning("traces_off", hint="pip install 'navi[otel]'", missing=error.name)
        return None
    try:
        exporter = OtlpExporter(environment)
    except ValueError as error:
        raise BadInput("OTEL_EXPORTER_OTLP_*", str(error)) from error
    return ExportTraces(
        store.log,
        PostgresTraceCheckpoint(store.pool),
        exporter,
        PostgresLeaderLock(store.database_url, TRACES_LOCK),
        ExportDelays(),
    )
