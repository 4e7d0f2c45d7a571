"""The composition root: which adapter stands behind which port, and in which order things start and end."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog
from msgspec import Struct

from navi import __version__, failpoints
from navi.adapters.embedded.errors import DataDirectoryInUse
from navi.adapters.embedded.servers import Addresses, EmbeddedServers, open_or_attach
from navi.adapters.files.workspaces import Workspaces
from navi.adapters.llm.detect import Detected, ModelSettings, detect, parse_backends
from navi.adapters.llm.embedders import FoundEmbedders
from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.nats.wake_ups import wake_ups
from navi.adapters.postgres.connect import Pool, open_pool
from navi.adapters.postgres.event_log import PostgresEventLog
from navi.adapters.postgres.memories import PostgresMemories
from navi.adapters.postgres.migrate import migrate, pending
from navi.adapters.postgres.nodes import PostgresNodes
from navi.adapters.postgres.read_models import PostgresReadModels
from navi.adapters.postgres.text_store import PostgresTextStore
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.adapters.tools.memory import MemoryTool
from navi.adapters.tools.toolbox import Tools
from navi.application.ask_model import AskModelOnce, CallSettings
from navi.application.compress import CompressContext, CompressSettings
from navi.application.followers.after_turn import AfterTurn
from navi.application.followers.compress_after import CompressAfter
from navi.application.followers.keep_memories import KeepMemories
from navi.application.followers.name_session import NameSession
from navi.application.followers.project import Projector
from navi.application.followers.relay import (
    Degraded,
    Following,
    Pace,
    Relay,
    RelayState,
    StandingBy,
)
from navi.application.followers.remember import Remember
from navi.application.manage_context import ManageContext
from navi.application.manage_memories import AgentMemories, ManageMemories
from navi.application.manage_sessions import ManageSessions
from navi.application.record import Records
from navi.application.run_tool import RunToolOnce
from navi.application.session_runs import SessionRuns
from navi.application.take_over import TakeOver
from navi.application.turn_run import Agent
from navi.domain.errors import BadInput, StoreRefused, Unavailable
from navi.domain.ids import NodeId
from navi.http.services import Draining, Readiness, Services
from navi.ports import EventLog, ReadModels, TextStore, WakeUps
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo
from navi.settings import Settings

log = structlog.get_logger()

PROJECTIONS = (Sessions(), Messages(), Context(), Todo(), PlanningLog())
READ_CONNECTIONS = 8  # a node's reads; the log has its own connections for appending and tailing
RELAY_FLUSH_SECONDS = 5.0  # what a node that ends waits for its last events to reach NATS
CATCH_UP_SECONDS = 60.0  # what a starting node waits for read models before it looks for open turns
READERS_SECONDS = 20.0  # what a server that starts waits for commands that read
READERS_LOOK_SECONDS = 0.1
CHECK_SECONDS = 3.0  # what Postgres may take to answer a question for readiness
FIRST_MIGRATION = "0001_event_log"


class Store(Struct, frozen=True, kw_only=True):
    """The log and what is kept beside it, open."""

    database_url: str
    log: PostgresEventLog
    texts: TextStore
    read_models: ReadModels
    nodes: PostgresNodes
    pool: Pool


@asynccontextmanager
async def open_store(
    settings: Settings, database_url: str, *, wakes: WakeUps | None = None
) -> AsyncGenerator[Store, None]:
    """Bring the database up to date and open the log.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi, or does not keep what it is given.
    """
    await migrate(database_url)
    async with _open(database_url, partitions=settings.log_partitions, wakes=wakes) as store:
        yield store


@asynccontextmanager
async def _open(
    database_url: str, *, partitions: int, wakes: WakeUps | None
) -> AsyncGenerator[Store, None]:
    async with (
        open_pool(database_url, size=READ_CONNECTIONS) as pool,
        # How durable the given Postgres is, is its operator's choice: it is logged, and `navi doctor`
        # names it, but nobody is kept from trying navi on a server that was set up for tests.
        PostgresEventLog.open(
            database_url, partitions=partitions, wake_ups=wakes, allow_unsafe_durability=True
        ) as event_log,
    ):
        yield Store(
            database_url=database_url,
            log=event_log,
            texts=PostgresTextStore(pool),
            read_models=PostgresReadModels(pool),
            nodes=PostgresNodes(database_url, pool),
            pool=pool,
        )


@asynccontextmanager
async def attached_store(settings: Settings) -> AsyncGenerator[Store, None]:
    """The log for a command that reads: a running navi's, or one opened for it alone.

    It changes nothing under other processes: a database that they use is not migrated here.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi.
        EmbeddedServerError: the embedded Postgres cannot be had.
    """
    async with attached_servers(settings, nats=False) as servers, store_on(servers) as store:
        yield store


@asynccontextmanager
async def store_on(servers: "Attached") -> AsyncGenerator[Store, None]:
    """The log on the servers of a command; raises as `attached_store`."""
    missing = await pending(servers.database_url)
    if missing and (servers.is_own or missing[0] == FIRST_MIGRATION):
        await migrate(servers.database_url)  # nobody else can be using it
    elif missing:
        raise StoreRefused(
            f"the database lacks {', '.join(missing)}, which this version of navi needs; "
            "`navi migrate` applies it"
        )
    # Not as many partitions as are set: a command that reads makes none.
    async with _open(servers.database_url, partitions=1, wakes=None) as store:
        yield store


class Attached(Struct, frozen=True, kw_only=True):
    """Servers that a command uses.

    Attributes:
        nats_url: None where NATS was not asked for.
        is_own: whether the Postgres was started for this command alone.
    """

    database_url: str
    nats_url: str | None
    is_own: bool


@asynccontextmanager
async def attached_servers(settings: Settings, *, nats: bool) -> AsyncGenerator[Attached, None]:
    """Postgres, and NATS where asked for: given, of a running navi, or started for this command.

    Raises:
        EmbeddedServerError: they cannot be had.
    """
    if settings.database_url is not None and (settings.nats_url is not None or not nats):
        yield Attached(
            database_url=settings.database_url,
            nats_url=settings.nats_url if nats else None,
            is_own=False,
        )
        return
    async with await open_or_attach(
        settings.data_dir,
        postgres=settings.database_url is None,
        nats=nats and settings.nats_url is None,
        nats_port=settings.nats_port,
        postgres_bin=settings.postgres_bin,
        nats_bin=settings.nats_bin,
    ) as servers:
        addresses = addresses_of(settings, servers)
        assert addresses.database_url is not None  # noqa: S101 - given or asked for
        yield Attached(
            database_url=addresses.database_url,
            nats_url=addresses.nats_url if nats else None,
            is_own=servers.is_owner and settings.database_url is None,
        )


class Node(Struct, frozen=True, kw_only=True):
    """A process of the service, put together; its followers run while ``running`` is entered."""

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
    contexts: ManageContext
    memories: ManageMemories
    keeper: KeepMemories
    after_turn: AfterTurn
    take_over: TakeOver
    projector: Projector
    relays: tuple[Relay, ...]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Join the other nodes and run the followers; at the end hand over and say good-bye."""
        await self.store.nodes.join(self.id)
        followers = [
            asyncio.create_task(self.projector.run(), name="projector"),
            asyncio.create_task(self._take_over(), name="take over"),
            asyncio.create_task(self.keeper.run(), name="memories"),
            asyncio.create_task(self.after_turn.run(), name="after turns"),
            *(asyncio.create_task(relay.run(), name="relay") for relay in self.relays),
        ]
        try:
            yield
            if not self.runs.draining:
                await self.drain()
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)
            try:
                await self.store.nodes.leave()
            except Unavailable as error:
                log.warning("node_left_without_word", error=str(error))

    async def drain(self) -> None:
        """Open no more turns, give the open ones their time, and let the relay publish the rest."""
        if not self.runs.draining:
            log.info("draining", running=len(self.runs.running))
        await self.runs.drain(self.settings.drain_seconds)
        await self.after_turn.end()
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


async def _published(event_log: EventLog, relay: Relay) -> None:
    page = await event_log.read_all(relay.partition, after=0, limit=1)
    while not _has(relay.state, page.head):  # noqa: ASYNC110 - the state is a value; a few looks at the end of a process
        await asyncio.sleep(0.02)


def _has(state: RelayState, head: int) -> bool:
    """Whether nothing is left to publish here: all is there, or another node's relay sees to it."""
    if isinstance(state, StandingBy):
        return True
    return isinstance(state, Following) and state.position >= head


@asynccontextmanager
async def open_servers(settings: Settings) -> AsyncGenerator[EmbeddedServers | None, None]:
    """The embedded servers that the settings leave to navi; None where both have an address."""
    if settings.database_url is not None and settings.nats_url is not None:
        yield None
        return
    async with await _start_servers(settings) as servers:
        yield servers


async def _start_servers(settings: Settings) -> EmbeddedServers:
    """Own the data directory; a command that only reads has it for a moment, and is waited for."""
    clock = SystemClock()
    deadline = clock.monotonic() + READERS_SECONDS
    while True:
        try:
            return await EmbeddedServers.start(
                settings.data_dir,
                postgres=settings.database_url is None,
                nats=settings.nats_url is None,
                nats_port=settings.nats_port,
                postgres_bin=settings.postgres_bin,
                nats_bin=settings.nats_bin,
            )
        except DataDirectoryInUse as busy:
            is_server = busy.run is not None and busy.run.http_url is not None
            if is_server or clock.monotonic() > deadline:
                raise
            await asyncio.sleep(READERS_LOOK_SECONDS)


def addresses_of(settings: Settings, servers: EmbeddedServers | None) -> Addresses:
    """Where Postgres and NATS are, given or embedded."""
    own = servers.addresses if servers is not None else Addresses()
    return Addresses(
        database_url=settings.database_url or own.database_url,
        nats_url=settings.nats_url or own.nats_url,
    )


@asynccontextmanager
async def open_node(
    settings: Settings, addresses: Addresses, environment: Mapping[str, str]
) -> AsyncGenerator[Node, None]:
    """Put a node together on servers that are there.

    Args:
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
        models = await detect(await model_settings(settings), clock=clock)
        stack.push_async_callback(models.servers.aclose)
        memories = PostgresMemories(
            store.pool,
            FoundEmbedders(models.embeddings, model=settings.embedding_model, clock=clock, ids=ids),
        )
        keeper = KeepMemories(store.log, memories)
        records = Records(store.log, store.read_models, clock, ids, node_id)
        manage_memories = ManageMemories(store.log, records, memories, keeper, ids)
        tools = await stack.enter_async_context(
            Tools(
                own_tools=settings.tools_dir,
                environment=environment,
                more=(MemoryTool(AgentMemories(manage_memories)),),
            )
        )
        profiles = FolderProfiles(settings.profiles_dir)
        stream = JetStream(
            nats,
            log_id=store.log.log_id,
            partitions=settings.log_partitions,
            max_age_hours=settings.stream_max_age_hours,
        )
        run_tool = RunToolOnce(tools, Workspaces(settings.files_dir), KeptOutputs(), clock)
        stack.push_async_callback(run_tool.close)
        ask_model = AskModelOnce(models.servers, store.texts, clock, ids, _calls(settings))
        compress = CompressContext(ask_model, _compression(settings))
        agent = Agent(
            node=node_id,
            ids=ids,
            profiles=profiles,
            tools=tools,
            ask_model=ask_model,
            run_tool=run_tool,
            compress=compress,
            memories=memories,
        )
        after_turn = AfterTurn(
            records,
            (
                CompressAfter(compress, profiles, node_id),
                NameSession(ask_model, profiles, node_id),
                Remember(ask_model, memories, profiles, ids, node_id),
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
            sessions=ManageSessions(store.log, records, runs, profiles, ids, node_id),
            contexts=ManageContext(records, compress, profiles, node_id),
            memories=manage_memories,
            keeper=keeper,
            after_turn=after_turn,
            take_over=TakeOver(
                store.log, store.read_models, records, runs, store.nodes, tools, node_id
            ),
            projector=Projector(store.log, store.read_models, PROJECTIONS, clock),
            relays=tuple(
                Relay(store.log, stream, partition, Pace())
                for partition in range(settings.log_partitions)
            ),
        )


def _calls(settings: Settings) -> CallSettings:
    return CallSettings(
        first_chunk_timeout=settings.llm_first_chunk_timeout, num_ctx=settings.ollama_num_ctx
    )


def _compression(settings: Settings) -> CompressSettings:
    return CompressSettings(
        enabled=settings.compression_enabled,
        threshold=settings.compression_threshold,
        keep_recent=settings.keep_recent,
        temperature=settings.summary_temperature,
        window=settings.ollama_num_ctx,
    )


def services_of(node: Node, draining: Draining) -> Services:
    """What the routes of HTTP and WebSocket use of a node."""
    return Services(
        event_log=node.store.log,
        read_models=node.store.read_models,
        sessions=node.sessions,
        contexts=node.contexts,
        memories=node.memories,
        profiles=node.profiles,
        tools=node.tools,
        texts=node.store.texts,
        servers=node.models.servers,
        clock=SystemClock(),
        check=partial(_check, node),
        draining=draining,
        version=__version__,
    )


async def _check(node: Node) -> Readiness:
    postgres = migrations = True
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            migrations = not await pending(node.store.database_url)
    except (TimeoutError, Unavailable):
        postgres = False
    except StoreRefused:
        # A newer node has migrated: migrations are made so that this version can go on beside it.
        migrations = True
    refused = any(isinstance(relay.state, Degraded) for relay in node.relays)
    nats = node.nats.trouble is None and not refused
    return Readiness(postgres=postgres, nats=nats, migrations=migrations)


async def model_settings(settings: Settings) -> ModelSettings:
    """What the settings say of model servers, with the file that they name.

    Raises:
        BadInput: the file cannot be read or is not understood.
    """
    path = settings.ollama_backends_file
    try:
        data = None if path is None else await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise BadInput("OLLAMA_BACKENDS_FILE", f"{path}: {error.strerror}") from error
    backends = () if data is None else parse_backends(data)
    return ModelSettings(
        llm=settings.llm,
        model=settings.model,
        ollama_host=settings.ollama_host,
        ollama_backends=backends,
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        chunk_timeout=settings.llm_chunk_timeout,
    )
