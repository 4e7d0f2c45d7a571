"""The adapters of the log and what is kept beside it: for a node, and for commands that change them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.llm.embedders import FoundEmbedders
from navi.adapters.nats.connect import NatsConnection
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.postgres.memories.memories import PostgresMemories
from navi.adapters.system import RandomIds, SystemClock
from navi.application.composition.compose_log_services import (
    LogPorts,
    LogServices,
    compose_log_services,
)
from navi.bootstrap.store import Store, attached_store
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.ids import NodeId
from navi.ports.embedding import Embedders
from navi.ports.metrics import EventMetrics
from navi.settings import Settings


def log_ports(
    settings: Settings,
    store: Store,
    *,
    node: NodeId,
    secrets: Secrets,
    embedders: Embedders,
    metrics: EventMetrics | None,
) -> LogPorts:
    """The ports of a process on an open log."""
    clock = SystemClock()
    return LogPorts(
        node=node,
        event_log=store.log,
        read_models=store.read_models,
        texts=store.texts,
        memories=PostgresMemories(store.pool, embedders, pools_of=store.pools_of),
        workspaces=FolderWorkspaces(settings.files_dir),
        uploads=FolderUploads(settings.files_dir, clock),
        clock=clock,
        ids=RandomIds(),
        secrets=secrets,
        metrics=metrics,
    )


def command_services(settings: Settings, store: Store) -> LogServices:
    """What one command may do to the log; it runs no turns and asks no model.

    So memories are found by their words alone.
    """
    clock, ids = SystemClock(), RandomIds()
    return compose_log_services(
        log_ports(
            settings,
            store,
            node=NodeId(ids.uuid()),
            secrets=Secrets(settings.secrets),
            embedders=FoundEmbedders((), model=None, clock=clock, ids=ids),
            metrics=None,
        )
    )


@asynccontextmanager
async def attached_services(settings: Settings) -> AsyncGenerator[LogServices, None]:
    """The services of a command on a running navi's log, or on one opened for it alone.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi.
        EmbeddedServerError: the embedded Postgres cannot be had.
    """
    async with attached_store(settings) as store:
        yield command_services(settings, store)


def relay_stream(
    store: Store, nats: NatsConnection, *, max_age_hours: int | None = None
) -> JetStream:
    """The NATS streams of a log.

    Args:
        max_age_hours: how long NATS keeps an event; None for a command, which does not know how the
            navi that runs was set.
    """
    return JetStream(
        nats,
        log_id=store.log.log_id,
        partitions=store.log.partitions,  # which may be more than new sessions are spread over
        max_age_hours=max_age_hours,
    )
