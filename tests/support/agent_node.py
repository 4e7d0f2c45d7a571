"""A node without a network edge: real loop, real tools, a scripted model server, a log in memory."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.nodes import InMemoryNodes
from navi.adapters.in_memory.place_locks import InMemoryPlaceLocks
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.servers import PooledServer, ServerPool
from navi.adapters.metrics.prometheus import PrometheusMetrics
from navi.adapters.passwords import Argon2Passwords
from navi.adapters.patterns import search_in_time
from navi.adapters.pictures.prepare import PicturesOfSessions
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.application.accounts.user_rights import AuthMode
from navi.application.agent.compress import CompressSettings
from navi.application.agent.model_calls.ask_model import CallSettings
from navi.application.commands.manage_sessions import Received
from navi.application.composition.compose_accounts import AccountServices, compose_accounts
from navi.application.composition.compose_agent import (
    AgentPorts,
    ComposedAgent,
    compose_agent,
    live_parts,
)
from navi.application.composition.compose_doors import compose_take_message
from navi.application.composition.compose_log_services import (
    LogPorts,
    LogServices,
    compose_log_services,
)
from navi.application.followers.project import Projector
from navi.application.reading.await_turn import TurnOutcome, await_turn
from navi.application.uploads.manage_uploads import ManageUploads
from navi.domain.log.secrets import Secrets
from navi.domain.session.turn import SUBAGENT_SECONDS
from navi.domain.vocabulary.events import AgentEvent, Mode
from navi.domain.vocabulary.ids import MessageId, NodeId, Owner, SessionId
from navi.domain.vocabulary.principal import DEFAULT_LIMITS, NO_LIMITS, Limits
from navi.ports.accounts import Accounts
from navi.ports.clock import Clock
from navi.ports.event_log import Recorded
from navi.ports.language_model import Capacity
from navi.ports.log_admin import LogBackend
from navi.ports.memories import Memories
from navi.ports.metrics import Metrics
from navi.ports.pictures import Pictures
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.tools import Tool, ToolSource
from navi.projections.registry import PROJECTIONS
from tests.support.given_tools import GivenTools

WINDOW = 8192  # tokens
TIMEOUT = 60.0  # seconds a test waits for what must come
MAX_UPLOAD_BYTES = 4 * 1024 * 1024
PASSWORDS = Argon2Passwords(time_cost=1, memory_kib=8)  # as weak as argon2 goes
Kind = TypeVar("Kind", bound=AgentEvent)

WORLDS: "list[World]" = []  # of the test that runs


class World:
    """What the nodes of a test share: the log, the read models, and who is alive."""

    def __init__(
        self,
        event_log: LogBackend | None = None,
        *,
        read_models: ReadModelBackend | None = None,
        memories: Memories | None = None,
    ) -> None:
        self.log: LogBackend = event_log or InMemoryEventLog()
        self.read_models: ReadModelBackend = read_models or InMemoryReadModels()
        self.texts = InMemoryTextStore()
        self.memories: Memories = memories or InMemoryMemories(NoEmbedders())
        self.cluster: dict[NodeId, Any] = {}
        self.secrets = Secrets()
        self.places: set[tuple[Owner, int]] = set()  # for turns
        self.accounts: Accounts = InMemoryAccounts()
        WORLDS.append(self)

    async def project(self) -> None:
        """Bring the read models up to date."""
        await Projector(self.log, self.read_models, PROJECTIONS, SystemClock()).caught_up()

    async def events(self, session_id: SessionId) -> list[Recorded]:
        """All events of a session."""
        return [row async for rows in self.log.read(session_id) for row in rows]

    async def types(self, session_id: SessionId) -> list[str]:
        """The types of a session's events, neighbouring deltas of one type as one."""
        found: list[str] = []
        for row in await self.events(session_id):
            if not (row.type.endswith("_delta") and found and found[-1] == row.type):
                found.append(row.type)
        return found

    async def seen(self, session_id: SessionId, type_: str, count: int = 1) -> Recorded:
        """The ``count``-th event of a type, waited for."""
        async with asyncio.timeout(TIMEOUT):
            left = count
            async for rows in self.log.watch(session_id, after=0):
                for row in rows:
                    left -= row.type == type_
                    if left == 0:
                        return row
        raise AssertionError("a watch has no end")


class AgentNode:
    """One process of the service, as far as turns go."""

    def __init__(
        self,
        world: World,
        composed: ComposedAgent,
        services: LogServices,
        accounts: AccountServices,
        servers: ServerPool,
        tools: Tools,
        metrics: Metrics,
    ) -> None:
        self.world = world
        self.metrics = metrics
        self.id = composed.parts.node
        self.records = services.records
        self.sessions = composed.sessions
        self.take_over = composed.take_over
        self.runs = composed.runs
        self.contexts = composed.contexts
        self.decide_approval = composed.decide_approval
        self.agent = composed.agent
        self.fork_session = services.fork_session
        self.memories = services.memories
        self.keep_memories = services.keep_memories
        self.uploads = ManageUploads(
            services.records,
            services.ports.uploads,
            world.secrets,
            max_bytes=MAX_UPLOAD_BYTES,
            refused_suffixes=(".exe", ".sh"),
        )
        self.take_message = compose_take_message(services, composed.sessions, self.uploads)
        self.accounts = accounts
        self.servers = servers
        self.tools = tools

    async def session(self, profile_id: str = "assistant") -> SessionId:
        """A new session."""
        return (await self.sessions.create(profile_id=profile_id, name=None)).id

    async def say(
        self,
        session_id: SessionId,
        content: str,
        *,
        mode: Mode = "queue",
        message_id: str | None = None,
        planning: bool = False,
        files: tuple[str, ...] = (),
    ) -> Received:
        """Send a message."""
        return await self.sessions.receive(
            session_id,
            content=content,
            files=files,
            mode=mode,
            message_id=MessageId(message_id) if message_id else None,
            planning=planning,
        )

    async def events(self, session_id: SessionId, kind: type[Kind]) -> list[Kind]:
        """The events of a session that are of a class."""
        rows = await self.world.events(session_id)
        return [event for row in rows if isinstance(event := row.envelope.event, kind)]

    async def outcome(self, session_id: SessionId, receipt: Received) -> TurnOutcome:
        """How the turn of a message ended."""
        async with asyncio.timeout(TIMEOUT):
            return await await_turn(self.world.log, session_id, message_seq=receipt.seq)

    async def ask(self, session_id: SessionId, content: str) -> TurnOutcome:
        """Send a message and wait for its turn."""
        return await self.outcome(session_id, await self.say(session_id, content))


@asynccontextmanager
async def agent_node(
    world: World,
    files: Path,
    urls: Sequence[str],
    *,
    first_chunk_timeout: float = 60.0,
    chunk_timeout: float = 60.0,
    tools: Sequence[Tool] = (),
    sources: Sequence[ToolSource] = (),
    own_tools: Path | None = None,
    profiles: Path | None = None,
    follow: bool = False,
    keep_recent: int = 10,
    subagent_seconds: float = SUBAGENT_SECONDS,
    clock: Clock | None = None,
    window: int = WINDOW,
    slots: int = 16,
    user_tokens: int | None = None,
    limits: Limits = NO_LIMITS,
    auth: AuthMode = "none",
    proxy_admins: frozenset[str] = frozenset(),
    pictures: Pictures | None = None,
) -> AsyncGenerator[AgentNode, None]:
    """A node on these model servers; killed, not drained, at the end.

    Args:
        urls: of Ollama's protocol, or of OpenAI's where they end with ``/v1``.
    """
    clock, ids = clock or SystemClock(), RandomIds()
    node_id = NodeId(ids.uuid())
    models = [
        OpenAI(url, api_key=None, chunk_timeout=chunk_timeout)
        if url.endswith("/v1")
        else Ollama(f"server {place}", url, headers={}, chunk_timeout=chunk_timeout)
        for place, url in enumerate(urls)
    ]
    pool = ServerPool(
        [PooledServer(model=model, models=(), num_ctx=window) for model in models],
        default_model=None,
        clock=clock,
        settings=Capacity(slots=slots),
    )
    nodes = InMemoryNodes(world.cluster)
    await nodes.join(node_id)
    metrics = PrometheusMetrics(lambda name: toolbox.find(name) is not None, node=node_id)
    services = compose_log_services(
        LogPorts(
            node=node_id,
            event_log=world.log,
            read_models=world.read_models,
            texts=world.texts,
            memories=world.memories,
            workspaces=FolderWorkspaces(files),
            uploads=FolderUploads(files, clock),
            clock=clock,
            ids=ids,
            secrets=world.secrets,
            metrics=metrics,
        )
    )
    accounts = compose_accounts(
        services,
        world.accounts,
        PASSWORDS,
        mode=auth,
        limits=replace(limits if auth == "none" else DEFAULT_LIMITS, tokens=user_tokens),
        proxy_admins=proxy_admins,
    )
    own_tools = own_tools or files / "no-tools"
    every = (GivenTools(tools), *sources)
    async with Tools(ToolPorts(), own_tools=own_tools, environment={}, sources=every) as toolbox:
        ports = AgentPorts(
            log_services=services,
            nodes=nodes,
            servers=pool,
            profiles=FolderProfiles(profiles or files / "no-profiles"),
            tools=toolbox,
            outputs=KeptOutputs(),
            pictures=pictures or PicturesOfSessions(FolderWorkspaces(files), {}),
            calls=CallSettings(first_chunk_timeout=first_chunk_timeout),
            compression=CompressSettings(
                enabled=True, threshold=0.8, keep_recent=keep_recent, temperature=0.3
            ),
            limits=accounts.rights,
            places=InMemoryPlaceLocks(world.places),
            search=search_in_time,
            token_limits=accounts.rights,
            user_of=accounts.rights.user_of,
            subagent_seconds=subagent_seconds,
        )
        composed = compose_agent(replace(live_parts(ports), follows=follow))
        following = asyncio.create_task(composed.after_turn.run())
        try:
            yield AgentNode(world, composed, services, accounts, pool, toolbox, metrics)
        finally:
            await composed.runs.drain(0)
            following.cancel()
            await asyncio.wait({following})
            world.cluster[node_id] = "gone"
            await composed.close()
            await pool.aclose()


def write_profiles(folder: Path, **configs: dict[str, Any]) -> Path:
    """A directory of profiles in a folder: for each id its ``config.json``."""
    profiles = folder / "profiles"
    for profile_id, config in configs.items():
        (profiles / profile_id).mkdir(parents=True, exist_ok=True)
        (profiles / profile_id / "config.json").write_text(json.dumps(config))
    return profiles


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    """The classes of events, by name."""
    return [type(event).__name__ for event in events]
