"""The services of a node for HTTP and WebSocket routes."""

import asyncio
from functools import partial

from navi import __version__
from navi.adapters.files.price_file import PriceFile
from navi.adapters.files.workspace_files import FolderWorkspaceFiles
from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import SystemClock
from navi.application.composition.compose_doors import compose_take_message
from navi.application.followers.relay import (
    Degraded,
)
from navi.application.reading.context_windows import ContextWindows
from navi.bootstrap.health import look_at
from navi.bootstrap.node import Node, compress_settings
from navi.domain.vocabulary.errors import StoreRefused, Unavailable
from navi.domain.vocabulary.ids import Owner
from navi.http.requests.services import Draining, Readiness, Reads, Services

CHECK_SECONDS = 1.5  # what Postgres may take for readiness, once it is known who asks: 2 s in all


def services_of(node: Node, draining: Draining) -> Services:
    """The services of a node for HTTP and WebSocket routes."""
    return Services(
        accounts=node.accounts,
        event_log=node.store.log,
        read_models=node.store.read_models,
        reads_of=partial(_reads, node),
        sessions=node.agent.sessions,
        fork_session=node.services.fork_session,
        contexts=node.agent.contexts,
        decide_approval=node.agent.decide_approval,
        take_message=compose_take_message(node.services, node.agent.sessions, node.uploads),
        memories=node.services.memories,
        uploads=node.uploads,
        workspace_files=FolderWorkspaceFiles(node.settings.files_dir),
        profiles=node.profiles,
        context_windows=ContextWindows(node.profiles, node.models.servers, SystemClock()),
        compression=compress_settings(node.settings),
        tools=node.tools,
        texts=node.store.texts,
        prices=PriceFile(node.settings.prices_file),
        renderers=KnownRenderers(),
        check=partial(_check, node),
        metrics=node.metrics,
        take_gauges=node.gauges.take,
        secrets=node.services.ports.secrets,
        look_at_node=look_at(node),
        draining=draining,
        version=__version__,
    )


def _reads(node: Node, owner: Owner) -> Reads:
    return Reads(event_log=node.store.log_of(owner), read_models=node.store.read_models_of(owner))


async def _check(node: Node) -> Readiness:
    postgres = migrations = True
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            migrations = not await node.store.schema.pending()
    except (TimeoutError, Unavailable):
        postgres = False
    except StoreRefused:
        # A newer node has migrated: migrations are made so that this version can go on beside it.
        migrations = True
    refused = any(isinstance(relay.state, Degraded) for relay in node.relays)
    nats = node.nats.trouble is None and not refused
    return Readiness(postgres=postgres, nats=nats, migrations=migrations)
