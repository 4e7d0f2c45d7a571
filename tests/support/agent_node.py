"""A node without a network edge: real loop, real tools, a scripted model server, a log in memory."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.nodes import InMemoryNodes
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.servers import PooledServer, ServerPool
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.adapters.tools.toolbox import Tools
from navi.application.agent.after_turn.after_turn import AfterTurn
from navi.application.agent.after_turn.compress_after import CompressAfter
from navi.application.agent.after_turn.name_session import NameSession
from navi.application.agent.after_turn.remember import Remember
from navi.application.agent.agent_actions import SUBAGENT_SECONDS
from navi.application.agent.compress import CompressContext, CompressSettings
from navi.application.agent.model_calls.ask_model import AskModelOnce, CallSettings
from navi.application.agent.model_calls.call_bounds import CallBounds
from navi.application.agent.model_calls.model_queue import ModelQueue
from navi.application.agent.run_tool import RunToolOnce
from navi.application.agent.running_turn import Agent
from navi.application.agent.session_runs import SessionRuns
from navi.application.agent.take_over import TakeOver
from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions, Received
from navi.application.followers.project import Projector
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import ManageMemories
from navi.application.reading.await_turn import TurnOutcome, await_turn
from navi.application.session.record import Records
from navi.application.uploads.manage_uploads import ManageUploads
from navi.domain.events import AgentEvent, Mode
from navi.domain.ids import MessageId, NodeId, SessionId
from navi.domain.secrets import Secrets
from navi.ports.clock import Clock
from navi.ports.event_log import Recorded
from navi.ports.language_model import Capacity
from navi.ports.log_admin import LogBackend
from navi.ports.tools import Tool
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo

WINDOW = 8192  # tokens
TIMEOUT = 10.0  # seconds a test waits for what must come
MAX_UPLOAD_BYTES = 4 * 1024 * 1024
PROJECTIONS = (Sessions(), Messages(), Context(), Todo(), PlanningLog())


WORLDS: "list[World]" = []  # of the test that runs


class World:
    """What the nodes of a test share: the log, the read models, and who is alive."""

    def __init__(self, event_log: LogBackend | None = None) -> None:
        self.log: LogBackend = event_log or InMemoryEventLog()
        self.read_models = InMemoryReadModels()
        self.texts = InMemoryTextStore()
        self.memories = InMemoryMemories(NoEmbedders())
        self.cluster: dict[NodeId, Any] = {}
        self.secrets = Secrets()
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
        self, world: World, node: NodeId, sessions: ManageSessions, take_over: TakeOver
    ) -> None:
        self.world = world
        self.id = node
        self.sessions = sessions
        self.take_over = take_over
        self.runs: SessionRuns
        self.fork_session: SessionForker
        self.contexts: ManageContext
        self.memories: ManageMemories
        self.uploads: ManageUploads
        self.agent: Agent
        self.servers: ServerPool

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
    ) -> Received:
        """Send a message."""
        return await self.sessions.receive(
            session_id,
            content=content,
            files=(),
            mode=mode,
            message_id=MessageId(message_id) if message_id else None,
            planning=planning,
        )

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
    first_chunk_timeout: float = 5.0,
    chunk_timeout: float = 5.0,
    tools: Sequence[Tool] = (),
    profiles: Path | None = None,
    follow: bool = False,
    keep_recent: int = 10,
    subagent_seconds: float = SUBAGENT_SECONDS,
    clock: Clock | None = None,
    window: int = WINDOW,
    slots: int = 16,
) -> AsyncGenerator[AgentNode, None]:
    """A node on these model servers (Ollama's protocol); killed, not drained, at the end."""
    clock, ids = clock or SystemClock(), RandomIds()
    node_id = NodeId(ids.uuid())
    models = [
        Ollama(f"server {place}", url, headers={}, chunk_timeout=chunk_timeout)
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
    async with Tools(own_tools=files / "no-tools", environment={}, more=tools) as toolbox:
        workspaces = FolderWorkspaces(files)
        run_tool = RunToolOnce(toolbox, workspaces, KeptOutputs(), clock)
        profile_folder = FolderProfiles(profiles or files / "no-profiles")
        ask_model = AskModelOnce(
            pool,
            world.texts,
            clock,
            ids,
            CallSettings(first_chunk_timeout=first_chunk_timeout),
            world.secrets,
            CallBounds(pool),
            ModelQueue(),
        )
        compress = CompressContext(
            ask_model,
            CompressSettings(enabled=True, threshold=0.8, keep_recent=keep_recent, temperature=0.3),
        )
        agent = Agent(
            node=node_id,
            ids=ids,
            clock=clock,
            profiles=profile_folder,
            tools=toolbox,
            ask_model=ask_model,
            run_tool=run_tool,
            compress=compress,
            memories=world.memories,
            subagent_seconds=subagent_seconds,
        )
        records = Records(world.log, world.read_models, clock, ids, node_id, world.secrets)
        after_turn = AfterTurn(
            records,
            (
                CompressAfter(compress, profile_folder, toolbox, node_id),
                NameSession(ask_model, profile_folder, toolbox, node_id),
                Remember(ask_model, world.memories, profile_folder, toolbox, ids, node_id),
            )
            if follow
            else (),
        )
        following = asyncio.create_task(after_turn.run())
        runs = SessionRuns(world.log, records, agent, completed=after_turn.completed)
        sessions = ManageSessions(
            world.log, records, runs, profile_folder, ids, node_id, world.secrets
        )
        take_over = TakeOver(
            world.log,
            world.read_models,
            records,
            runs,
            nodes,
            toolbox,
            node_id,
            left_behind=after_turn.left_behind,
        )
        node = AgentNode(world, node_id, sessions, take_over)
        node.runs, node.agent, node.servers = runs, agent, pool
        keeper = KeepMemories(world.log, world.memories)
        erase = EraseMemory(world.log, world.texts, records, world.read_models)
        node.memories = ManageMemories(records, world.memories, keeper, erase, ids)
        uploads = FolderUploads(files, clock)
        node.fork_session = SessionForker(
            world.log, world.read_models, records, workspaces, uploads, ids
        )
        node.uploads = ManageUploads(
            records,
            uploads,
            world.secrets,
            max_bytes=MAX_UPLOAD_BYTES,
            refused_suffixes=(".exe", ".sh"),
        )
        node.contexts = ManageContext(records, compress, profile_folder, toolbox, node_id)
        try:
            yield node
        finally:
            await runs.drain(0)
            following.cancel()
            await asyncio.wait({following})
            world.cluster[node_id] = "gone"
            await run_tool.close()
            await pool.aclose()


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    """The classes of events, by name."""
    return [type(event).__name__ for event in events]
