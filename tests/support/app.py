"""The whole service on a log in memory, behind its real HTTP server on a free port."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from navi.adapters.files.price_file import PriceFile
from navi.adapters.files.workspace_files import FolderWorkspaceFiles
from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import SystemClock
from navi.application.accounts.user_rights import AuthMode
from navi.application.agent.compress import CompressSettings
from navi.application.followers.take_gauges import TakeGauges
from navi.application.reading.context_windows import ContextWindows
from navi.application.reading.node_health import LookAtNode, NodeParts
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.http.app import create_app
from navi.http.requests.services import Draining, Readiness, Reads, Services
from navi.http.server.address import Address
from navi.http.server.authentication import Identified, Identify
from navi.http.server.proxies import Proxies
from navi.http.server.serve import serving
from navi.ports.accounts import Standing
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Types
from navi.ports.log_partitions import Page
from navi.projections.registry import PROJECTIONS
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.http_client import http_client
from tests.support.model_server import ModelServer

TIMEOUT = 60.0  # seconds a test waits for what must come


class SwitchedLog(InMemoryEventLog):
    """A log in memory that can be out of reach, as Postgres can."""

    def __init__(self) -> None:
        super().__init__()
        self.reachable = True

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        self._reach()
        return await super().append(batch)

    async def head(self, session_id: SessionId) -> int:
        self._reach()
        return await super().head(session_id)

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        self._reach()
        async with aclosing(
            super().read(session_id, after=after, until=until, types=types)
        ) as batches:
            async for batch in batches:
                yield batch

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        self._reach()
        return await super().read_all(partition, after=after, limit=limit, deltas=deltas)

    def _reach(self) -> None:
        if not self.reachable:
            raise LogUnavailable("Postgres at postgresql://navi:secret@db does not answer")


class SwitchedAccounts(InMemoryAccounts):
    """Accounts in memory that can be out of reach, or hang, as Postgres can.

    Attributes:
        reachable: to be cleared; a look-up then fails.
        answers: to be cleared; a look-up then waits until it is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reachable = True
        self.answers = asyncio.Event()
        self.answers.set()

    async def standing(
        self, user_ids: Collection[Owner], credential_ids: Collection[str]
    ) -> Standing:
        await self.answers.wait()
        if not self.reachable:
            raise LogUnavailable("Postgres at postgresql://navi:secret@db does not answer")
        return await super().standing(user_ids, credential_ids)


class Switches:
    """What a test may turn about a served application."""

    def __init__(self) -> None:
        self.draining = Draining()
        self.found = Readiness(postgres=True, nats=True, migrations=True)


class RunningApp:
    """A served application."""

    def __init__(
        self,
        world: World,
        node: AgentNode,
        models: ModelServer,
        address: Address,
        switches: Switches,
        files: Path,
    ) -> None:
        self.world = world
        self.node = node
        self.models = models
        self.address = address
        self.switches = switches
        self.files = files
        self.client = http_client(address.url, timeout=TIMEOUT)

    async def session(self, **body: Any) -> SessionId:
        """A new session."""
        response = await self.client.post("/sessions", json=body)
        assert response.status_code == 201, response.text
        return SessionId(response.json()["id"])

    def socket(self, session_id: str, *, after: int | str | None = None, **options: Any) -> connect:
        """A WebSocket on a session; used with ``async with``."""
        query = "" if after is None else f"?after={after}"
        url = f"ws://127.0.0.1:{self.address.port}/ws/sessions/{session_id}{query}"
        # Where frames that nobody has read fill a queue, none is read any more, that of the end neither.
        options = {"max_queue": None, **options}
        return connect(url, proxy=None, compression=None, max_size=None, **options)


@asynccontextmanager
async def running_app(
    files: Path,
    *,
    world: World | None = None,
    allowed_hosts: tuple[str, ...] = (),
    profiles: Path | None = None,
    user_tokens: int | None = None,
    identify: Identify | None = None,
    change: Callable[[Services], Services] = lambda services: services,
    auth: AuthMode = "none",
    proxies: Proxies | None = None,
    proxy_admins: frozenset[str] = frozenset(),
) -> AsyncGenerator[RunningApp, None]:
    """The service; its model server answers as the demo model does unless a test says otherwise.

    Args:
        change: what a test wants otherwise of the services.
    """
    world = world or World()
    async with (
        ModelServer() as models,
        agent_node(
            world,
            files,
            [models.url],
            profiles=profiles,
            user_tokens=user_tokens,
            auth=auth,
            proxy_admins=proxy_admins,
        ) as node,
    ):
        switches = Switches()

        async def check() -> Readiness:
            return switches.found

        take_gauges = TakeGauges(
            world.log,
            world.read_models,
            (),
            PROJECTIONS,
            running=lambda: len(node.runs.running),
        ).take

        async def ping() -> int:
            return await world.log.head(SessionId(""))

        services = Services(
            accounts=node.accounts,
            event_log=world.log,
            read_models=world.read_models,
            reads_of=lambda _: Reads(event_log=world.log, read_models=world.read_models),
            sessions=node.sessions,
            fork_session=node.fork_session,
            contexts=node.contexts,
            decide_approval=node.decide_approval,
            take_message=node.take_message,
            memories=node.memories,
            uploads=node.uploads,
            workspace_files=FolderWorkspaceFiles(files),
            profiles=node.agent.profiles.files,
            context_windows=ContextWindows(node.agent.profiles.files, node.servers, SystemClock()),
            compression=CompressSettings(
                enabled=True, threshold=0.8, keep_recent=10, temperature=0.3
            ),
            tools=node.tools,
            texts=world.texts,
            prices=PriceFile(files / "prices.json"),
            renderers=KnownRenderers(),
            check=check,
            metrics=node.metrics,
            take_gauges=take_gauges,
            secrets=world.secrets,
            look_at_node=LookAtNode(
                NodeParts(
                    node=node.id,
                    log=world.log,
                    read_models=world.read_models,
                    projections=PROJECTIONS,
                    profiles=node.agent.profiles.files,
                    servers=node.servers,
                    clock=SystemClock(),
                    ping=ping,
                    take_gauges=take_gauges,
                    nats_trouble=lambda: ("connected", None),
                    load=node.agent.ask_model.load,
                )
            ),
            draining=switches.draining,
            version="0.0.0",
        )
        app = create_app(
            change(services),
            host="127.0.0.1",
            allowed_hosts=allowed_hosts,
            identify=identify or Identified(node.accounts.find_principal, proxies or Proxies()),
            proxies=proxies or Proxies(),
        )
        async with serving(app, host="127.0.0.1", port=0) as address:
            running = RunningApp(world, node, models, address, switches, files)
            async with running.client:
                yield running
            switches.draining.over.set()


async def next_frame(socket: ClientConnection) -> Any:
    """The next frame, decoded."""
    frame = await socket.recv()
    assert isinstance(frame, str)
    return json.loads(frame)
