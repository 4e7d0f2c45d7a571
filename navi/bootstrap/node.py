"""Compose a node: its parts, its background tasks, its shutdown."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import structlog
from msgspec import Struct

from navi import failpoints
from navi.adapters.embedded.servers import Addresses
from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import HeadsFile
from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.llm.detect import Detected, ModelSettings, detect
from navi.adapters.llm.embedders import FoundEmbedders
from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.heads_stream import HeadsStream
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.nats.wake_ups import wake_ups
from navi.adapters.postgres.leader_lock import HEADS_LOCK, PostgresLeaderLock
from navi.adapters.postgres.memories.memories import PostgresMemories
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.signing import open_signer
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.adapters.tools.memory import MemoryTool
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
from navi.application.audit.sign_heads import SignHeads
from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.followers.project import Projector
from navi.application.followers.relay import Following, Relay, RelayDelays, RelayState, StandingBy
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import AgentMemories, ManageMemories
from navi.application.session.record import Records
from navi.application.uploads.expire_uploads import ExpireUploads
from navi.application.uploads.manage_uploads import ManageUploads
from navi.bootstrap.models import model_settings
from navi.bootstrap.store import Store, open_store
from navi.domain.errors import Unavailable
from navi.domain.ids import NodeId
from navi.domain.secrets import Secrets, password_in
from navi.domain.uploads import MEBIBYTE
from navi.ports.log_admin import LogBackend
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo
from navi.settings import Settings

log = structlog.get_logger()

PROJECTIONS = (Sessions(), Messages(), Context(), Todo(), PlanningLog())
RELAY_FLUSH_SECONDS = 5.0  # what a node that ends waits for its last events to reach NATS
CATCH_UP_SECONDS = 10.0  # what a starting node waits for read models before it looks for open turns
BUILD_REST = 1.0  # of the time that building read models takes: turns and reads have the other half


class Node(Struct, frozen=True, kw_only=True):
    """A composed process of the service; its background tasks run inside ``running``."""

    id: NodeId
    settings: Settings
    addresses: Addresses
    store: Store
    nats: NatsConnection
    stream: JetStream
    profiles: FolderProfiles
    tools: Tools
    models: Detected
    runs: SessionRuns
    sessions: ManageSessions
    fork_session: SessionForker
    contexts: ManageContext
    memories: ManageMemories
    uploads: ManageUploads
    expire_uploads: ExpireUploads
    keeper: KeepMemories
    after_turn: AfterTurn
    take_over: TakeOver
    projector: Projector
    heads: SignHeads
    relays: tuple[Relay, ...]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Join the cluster and run the background tasks; at the end drain and leave."""
        await self.store.nodes.join(self.id)
        followers = [
            asyncio.create_task(self.projector.run(), name="projector"),
            asyncio.create_task(self._take_over(), name="take over"),
            asyncio.create_task(self.keeper.run(), name="memories"),
            asyncio.create_task(self.after_turn.run(), name="after turns"),
            asyncio.create_task(self.heads.run(), name="signed heads"),
            asyncio.create_task(self.expire_uploads.run(), name="uploads"),
            *(asyncio.create_task(relay.run(), name="relay") for relay in self.relays),
        ]
        try:
            yield
            if not self.runs.draining:
                await self.drain()
            await self._flush()
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)
            await self.heads.finish()
            await self._leave()

    async def drain(self) -> None:
        """Drain: start no turns, give open ones time, leave the rest to other nodes."""
        if not self.runs.draining:
            log.info("draining", running=len(self.runs.running))
        await self.runs.drain(self.settings.drain_seconds)
        await self.after_turn.end()
        await self._leave()

    async def _leave(self) -> None:
        try:
            await self.store.nodes.leave()
        except Unavailable as error:
            log.warning("node_left_without_word", error=str(error))

    async def _flush(self) -> None:
        """Wait for the relay to publish the rest."""
        if self.nats.trouble is not None:
            return  # the next process publishes the rest
        try:
            async with asyncio.timeout(RELAY_FLUSH_SECONDS):
                for relay in self.relays:
                    await _published(self.store.log, relay)
        except (TimeoutError, Unavailable):
            log.info("relay_left_behind", hint="the next process publishes the rest")

    async def _take_over(self) -> None:
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.projector.caught_up()
        except (TimeoutError, Unavailable) as error:
            log.warning("read_models_behind", error=type(error).__name__)
        await self.take_over.run()


async def _published(event_log: LogBackend, relay: Relay) -> None:
    page = await event_log.read_all(relay.partition, after=0, limit=1)
    while not _has(relay.state, page.head):  # noqa: ASYNC110 - the state is a value; a few looks at the end of a process
        await asyncio.sleep(0.02)


def _has(state: RelayState, head: int) -> bool:
    """Whether nothing is left to publish: all is there, or another node's relay does it."""
    if isinstance(state, StandingBy):
        return True
    return isinstance(state, Following) and state.position >= head


@asynccontextmanager
async def open_node(
    settings: Settings,
    addresses: Addresses,
    environment: Mapping[str, str],
    *,
    model: str | None = None,
) -> AsyncGenerator[Node, None]:
    """Compose a node on running servers.

    Args:
        model: what every profile is to use in place of its own; None for its own.
        environment: the process's own; tools of the user get the few variables that programs need.

    Raises:
        BadInput: a setting is not usable; names it.
        LogUnavailable: Postgres does not answer.
    """
    assert addresses.database_url is not None  # noqa: S101 - given or embedded
    assert addresses.nats_url is not None  # noqa: S101 - likewise
    failpoints.arm(settings.failpoints)
    clock, ids = SystemClock(), RandomIds()
    node_id = NodeId(ids.uuid())
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(
            connect(addresses.nats_url, name=f"navi {node_id[-6:]}")
        )
        wakes = await stack.enter_async_context(wake_ups(nats))
        store = await stack.enter_async_context(
            open_store(settings, addresses.database_url, wakes=wakes)
        )
        servers = await model_settings(settings)
        models = await detect(servers, clock=clock)
        stack.push_async_callback(models.aclose)
        memories = PostgresMemories(
            store.pool,
            FoundEmbedders(models.embeddings, model=settings.embedding_model, clock=clock, ids=ids),
        )
        keeper = KeepMemories(store.log, memories)
        secrets = secrets_of(settings, addresses, servers)
        records = Records(store.log, store.read_models, clock, ids, node_id, secrets)
        erase_memory = EraseMemory(store.log, store.texts, records, store.read_models)
        manage_memories = ManageMemories(records, memories, keeper, erase_memory, ids)
        tools = await stack.enter_async_context(
            Tools(
                own_tools=settings.tools_dir,
                environment=environment,
                more=(MemoryTool(AgentMemories(manage_memories)),),
            )
        )
        profiles = FolderProfiles(settings.profiles_dir, model=model)
        stream = JetStream(
            nats,
            log_id=store.log.log_id,
            partitions=settings.log_partitions,
            max_age_hours=settings.stream_max_age_hours,
        )
        workspaces = FolderWorkspaces(settings.files_dir)
        uploads = FolderUploads(settings.files_dir, clock)
        run_tool = RunToolOnce(tools, workspaces, KeptOutputs(), clock)
        stack.push_async_callback(run_tool.close)
        bounds = CallBounds(models.servers)
        ask_model = AskModelOnce(
            models.servers, store.texts, clock, ids, _calls(settings), secrets, bounds, ModelQueue()
        )
        compress = CompressContext(ask_model, _compression(settings))
        agent = Agent(
            node=node_id,
            ids=ids,
            clock=clock,
            profiles=profiles,
            tools=tools,
            ask_model=ask_model,
            run_tool=run_tool,
            compress=compress,
            memories=memories,
            subagent_seconds=SUBAGENT_SECONDS,
        )
        after_turn = AfterTurn(
            records,
            (
                CompressAfter(compress, profiles, tools, node_id),
                NameSession(ask_model, profiles, tools, node_id),
                Remember(ask_model, memories, profiles, tools, ids, node_id),
            ),
        )
        runs = SessionRuns(store.log, records, agent, completed=after_turn.completed)
        yield Node(
            id=node_id,
            settings=settings,
            addresses=addresses,
            store=store,
            nats=nats,
            stream=stream,
            profiles=profiles,
            tools=tools,
            models=models,
            runs=runs,
            sessions=ManageSessions(store.log, records, runs, profiles, ids, node_id, secrets),
            fork_session=SessionForker(
                store.log, store.read_models, records, workspaces, uploads, ids
            ),
            contexts=ManageContext(records, compress, profiles, tools, node_id),
            memories=manage_memories,
            uploads=ManageUploads(
                records,
                uploads,
                secrets,
                max_bytes=settings.files_max_size_mb * MEBIBYTE,
                refused_suffixes=settings.refused_suffixes,
            ),
            expire_uploads=ExpireUploads(
                records, uploads, clock, stay=timedelta(hours=settings.files_ttl_hours)
            ),
            keeper=keeper,
            after_turn=after_turn,
            take_over=TakeOver(
                store.log,
                store.read_models,
                records,
                runs,
                store.nodes,
                tools,
                node_id,
                left_behind=after_turn.left_behind,
            ),
            heads=await _sign_heads(settings, store, nats, clock),
            projector=Projector(store.log, store.read_models, PROJECTIONS, clock, rest=BUILD_REST),
            relays=tuple(
                Relay(store.log, stream, partition, RelayDelays())
                for partition in range(settings.log_partitions)
            ),
        )


async def _sign_heads(
    settings: Settings, store: Store, nats: NatsConnection, clock: SystemClock
) -> SignHeads:
    log_id = store.log.log_id
    return SignHeads(
        store.log,
        HeadsFile(settings.data_dir / HEADS_FILE, log_id=log_id),
        HeadsStream(nats),
        await asyncio.to_thread(open_signer, settings.keys_dir),
        PostgresLeaderLock(store.database_url, HEADS_LOCK),
        clock,
        log_id=log_id,
    )


def secrets_of(settings: Settings, addresses: Addresses, models: ModelSettings) -> Secrets:
    """The secrets to mask: those of the environment and of the servers in use."""
    urls = {"NATS_URL": addresses.nats_url or "", "DATABASE_URL": addresses.database_url or ""}
    return Secrets(
        {
            **_in_files(models),
            **{name: password_in(url) or "" for name, url in urls.items()},
            **settings.secrets,
        }
    )


def _in_files(models: ModelSettings) -> dict[str, str]:
    """The secrets in the lists of servers: headers ("Bearer KEY"; the key alone), keys, passwords."""
    ollamas, openais = models.ollama_backends, models.openai_backends
    found = {
        "OLLAMA_BACKENDS_FILE": [h for entry in ollamas for h in entry.headers.values()],
        "OPENAI_BACKENDS_FILE": [h for entry in openais for h in entry.headers.values()]
        + [entry.api_key or "" for entry in openais],
    }
    found["OLLAMA_BACKENDS_FILE"] += [password_in(entry.url) or "" for entry in ollamas]
    found["OPENAI_BACKENDS_FILE"] += [password_in(entry.url) or "" for entry in openais]
    return {
        f"{name} {number}": value.split()[-1]
        for name, values in found.items()
        for number, value in enumerate(values)
        if value.strip()
    }


def _calls(settings: Settings) -> CallSettings:
    return CallSettings(first_chunk_timeout=settings.llm_first_chunk_timeout)


def _compression(settings: Settings) -> CompressSettings:
    return CompressSettings(
        enabled=settings.compression_enabled,
        threshold=settings.compression_threshold,
        keep_recent=settings.keep_recent,
        temperature=settings.summary_temperature,
    )
