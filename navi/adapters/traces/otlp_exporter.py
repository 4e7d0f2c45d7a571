"""Send spans over OTLP/HTTP with the exporter of the OpenTelemetry SDK (the extra ``otel``).

The SDK reads the standard variables itself: endpoint, headers, time-out, compression, certificates, the
name of the service. It is made for threads, so it has one of its own: a daemon, so that an endpoint that
hangs holds up neither a turn nor the end of the process.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from navi import __version__
from navi.adapters.traces.otlp_json import SCOPE, nanoseconds, resource_of
from navi.domain.reading.spans import Span
from navi.ports.traces import Delivery

KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
WORTH_ANOTHER_TRY = frozenset({408, 429})  # of the statuses from 400 to 499
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """``SpanExporter`` over OTLP/HTTP with protobuf."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read the standard variables; the SDK reads those of the process.

        Raises:
            ValueError: one of them is not understood.
        """
        # Each failure is told by who calls, once; the SDK would tell of each try.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._status: int | None = None  # of the last answer
        session = requests.Session()
        session.hooks["response"].append(self._note)
        self._exporter = OTLPSpanExporter(session=session)
        self._resource = Resource(resource_of(environment))
        self._scope = InstrumentationScope(SCOPE, __version__)

    async def export(self, spans: Sequence[Span]) -> Delivery:
        return await _in_daemon(lambda: self._export([self._readable(span) for span in spans]))

    def close(self) -> None:
        """Give up what is being sent."""
        self._exporter.shutdown()

    def _export(self, spans: Sequence[ReadableSpan]) -> Delivery:
        self._status = None
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return "taken"
        status = self._status
        if status is None or not 400 <= status < 500 or status in WORTH_ANOTHER_TRY:
            return "away"
        return "refused"

    def _note(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._status = response.status_code

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[
                Event(event.name, dict(event.attributes), nanoseconds(event.at))
                for event in span.events
            ],
            links=[Link(_context(link.trace_id, link.span_id)) for link in span.links],
            kind=KINDS[span.kind],
            status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
            start_time=nanoseconds(span.began),
            end_time=nanoseconds(span.ended),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=SAMPLED)


async def _in_daemon(work: Callable[[], Delivery]) -> Delivery:
    """What ``work`` gives, done in a thread that nobody waits for at the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Delivery] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the waiting side raises it
            _tell(loop, done.set_exception, done, error)
        else:
            _tell(loop, done.set_result, done, result)

    threading.Thread(target=run, name="traces", daemon=True).start()
    return await done


def _tell(
    loop: asyncio.AbstractEventLoop, tell: Callable[[Any], None], done: asyncio.Future[Any], it: Any
) -> None:
    def unless_gone() -> None:
        if not done.done():
            tell(it)

    with suppress(RuntimeError):  # the loop is closed: the process is ending
        loop.call_soon_threadsafe(unless_gone)
