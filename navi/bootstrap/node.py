"""Compose a node: its parts, its background tasks, its shutdown."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import structlog
from msgspec import Struct
from structlog.contextvars import bind_contextvars

from navi.adapters.embedded.servers import Addresses
from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import HeadsFile
from navi.adapters.llm.detect import Detected, detect
from navi.adapters.llm.embedders import FoundEmbedders
from navi.adapters.metrics.prometheus import PrometheusMetrics
from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.heads_stream import HeadsStream
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.nats.wake_ups import wake_ups
from navi.adapters.patterns import search_in_time
from navi.adapters.pictures.prepare import PicturesOfSessions
from navi.adapters.postgres.connection_budget import FULL
from navi.adapters.postgres.leader_lock import HEADS_LOCK, PostgresLeaderLock
from navi.adapters.postgres.place_locks import PostgresPlaceLocks
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.profiles.with_skills import ProfilesWithSkills
from navi.adapters.sandbox.proof import ProvenSandbox
from navi.adapters.signing import open_signer
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.tools.code_exec import CodeTools
from navi.adapters.tools.kept_outputs import KeptOutputs
from navi.adapters.tools.mcp.servers import McpServers
from navi.adapters.tools.skills.folder import FolderSkills
from navi.adapters.tools.skills.tool import SkillTools
from navi.adapters.tools.ssh.source import SshTools
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.application.agent.allowed_tools import AllowedInLog
from navi.application.agent.compress import CompressSettings
from navi.application.agent.model_calls.ask_model import CallSettings
from navi.application.audit.sign_heads import SignHeads
from navi.application.composition.compose_accounts import AccountServices
from navi.application.composition.compose_agent import (
    AgentPorts,
    ComposedAgent,
    compose_agent,
    live_parts,
)
from navi.application.composition.compose_log_services import LogServices, compose_log_services
from navi.application.followers.export_traces import ExportTraces
from navi.application.followers.project import Projector
from navi.application.followers.relay import Following, Relay, RelayDelays, RelayState, StandingBy
from navi.application.followers.take_gauges import TakeGauges
from navi.application.memory.manage_memories import AgentMemories
from navi.application.session.deletion import await_deletion
from navi.application.uploads.expire_uploads import ExpireUploads
from navi.application.uploads.manage_uploads import ManageUploads
from navi.bootstrap.accounts import account_services
from navi.bootstrap.first_start import put_examples
from navi.bootstrap.log_ports import log_ports, relay_stream
from navi.bootstrap.models import model_settings
from navi.bootstrap.secrets import secrets_of
from navi.bootstrap.shared_files import sharing_files
from navi.bootstrap.store import Store, open_store
from navi.bootstrap.traces import trace_export
from navi.bootstrap.web import web_access
from navi.domain.uploads import MEBIBYTE
from navi.domain.vocabulary.errors import Unavailable
from navi.domain.vocabulary.ids import NodeId
from navi.ports.log_admin import LogBackend
from navi.ports.metrics import Metrics
from navi.ports.profiles import Profiles
from navi.projections.registry import PROJECTIONS
from navi.settings import Settings

log = structlog.get_logger()

RELAY_FLUSH_SECONDS = 5.0  # what a node that ends waits for its last events to reach NATS
BUILD_REST = 1.0  # of the time that building read models takes: turns and reads have the other half


class NodeSeat(Struct, frozen=True, kw_only=True):
    """What a node is among the processes of its service.

    Attributes:
        process: its number, from 1; None where there is one.
        pool_size: connections of each of its pools of Postgres, at the most.
    """

    process: int | None = None
    pool_size: int = FULL


ALONE = NodeSeat()


class Node(Struct, frozen=True, kw_only=True):
    """A composed process of the service; its background tasks run inside ``running``."""

    settings: Settings
    addresses: Addresses
    store: Store
    nats: NatsConnection
    stream: JetStream
    models: Detected
    profiles: Profiles
    tools: Tools
    sandbox: ProvenSandbox
    services: LogServices
    accounts: AccountServices
    agent: ComposedAgent
    uploads: ManageUploads
    expire_uploads: ExpireUploads
    projector: Projector
    heads: SignHeads
    relays: tuple[Relay, ...]
    metrics: Metrics
    gauges: TakeGauges
    traces: ExportTraces | None

    @property
    def id(self) -> NodeId:
        """The id of the process."""
        return self.services.ports.node

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Join the cluster and run the background tasks; at the end drain and leave."""
        await self.store.nodes.join(self.id)
        try:
            # Its mark goes when the node has left: else it would look like one with other files.
            async with sharing_files(self.settings, self.store.nodes, self.id), self._following():
                yield
        finally:
            await self._leave()

    @asynccontextmanager
    async def _following(self) -> AsyncGenerator[None, None]:
        followers = [
            asyncio.create_task(self.projector.run(), name="projector"),
            asyncio.create_task(
                self.agent.take_over.run(caught_up=self.projector.caught_up), name="take over"
            ),
            asyncio.create_task(self.services.keep_memories.run(), name="memories"),
            asyncio.create_task(self.agent.after_turn.run(), name="after turns"),
            asyncio.create_task(self.heads.run(), name="signed heads"),
            asyncio.create_task(self.expire_uploads.run(), name="uploads"),
            asyncio.create_task(self.sandbox.prove(), name="sandbox"),
            *(asyncio.create_task(relay.run(), name="relay") for relay in self.relays),
        ]
        if self.traces is not None:
            followers.append(asyncio.create_task(self.traces.run(), name="traces"))
        try:
            yield
            if not self.agent.runs.draining:
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
        if not self.agent.runs.draining:
            log.info("draining", running=len(self.agent.runs.running))
        await self.agent.runs.drain(self.settings.drain_seconds)
        await self.agent.after_turn.end()
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
    seat: NodeSeat = ALONE,
) -> AsyncGenerator[Node, None]:
    """Compose a node on running servers, whose database is up to date.

    Args:
        model: what every profile is to use in place of its own; None for its own.
        environment: the process's own; tools of the user get the few variables that programs need.
        seat: among the processes of its service.

    Raises:
        BadInput: a setting is not usable; names it.
        LogUnavailable: Postgres does not answer.
    """
    assert addresses.database_url is not None  # noqa: S101 - given or embedded
    assert addresses.nats_url is not None  # noqa: S101 - likewise
    await asyncio.to_thread(put_examples, tools=settings.tools_dir, profiles=settings.profiles_dir)
    clock, ids = SystemClock(), RandomIds()
    node_id = NodeId(ids.uuid())
    bind_contextvars(node=node_id)
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(
            connect(addresses.nats_url, name=f"navi {node_id[-6:]}")
        )
        wakes = await stack.enter_async_context(wake_ups(nats))
        store = await stack.enter_async_context(
            open_store(settings, addresses.database_url, wakes=wakes, pool_size=seat.pool_size)
        )
        servers = await model_settings(settings)
        models = await detect(servers, clock=clock)
        stack.push_async_callback(models.aclose)
        secrets = secrets_of(settings, addresses, servers)
        embedders = FoundEmbedders(
            models.embeddings, model=settings.embedding_model, clock=clock, ids=ids
        )
        metrics = PrometheusMetrics(
            partial(_is_offered, lambda: tools), node=node_id, process=seat.process
        )
        services = compose_log_services(
            log_ports(
                settings,
                store,
                node=node_id,
                secrets=secrets,
                embedders=embedders,
                metrics=metrics,
            )
        )
        accounts = account_services(settings, store, services)
        records, uploads = services.records, services.ports.uploads
        sandbox = sandbox_of(settings)
        await sandbox.find(environment.get("PATH"))
        skills = FolderSkills(settings.skills_dir)
        await asyncio.to_thread(skills.look)
        mcp_servers = await stack.enter_async_context(
            McpServers(
                settings.mcp_file,
                allowed=AllowedInLog(records, services.ports.texts),
                environment=environment,
            )
        )
        ssh = await stack.enter_async_context(
            SshTools(
                settings.ssh_file,
                deleted=partial(await_deletion, records, services.ports.event_log),
            )
        )
        tools = await stack.enter_async_context(
            Tools(
                ToolPorts(
                    remembering=AgentMemories(services.memories),
                    web=web_access(settings, environment),
                ),
                own_tools=settings.tools_dir,
                environment=environment,
                variables=settings.tools_env,
                sources=(CodeTools(sandbox), ssh, SkillTools(skills), mcp_servers),
            )
        )
        profiles = ProfilesWithSkills(FolderProfiles(settings.profiles_dir, model=model), skills)
        places = PostgresPlaceLocks(addresses.database_url)
        stack.push_async_callback(places.close)
        stream = relay_stream(store, nats, max_age_hours=settings.stream_max_age_hours)
        agent = compose_agent(
            live_parts(
                AgentPorts(
                    log_services=services,
                    nodes=store.nodes,
                    servers=models.servers,
                    profiles=profiles,
                    tools=tools,
                    outputs=KeptOutputs(),
                    pictures=PicturesOfSessions(services.ports.workspaces, environment),
                    calls=_calls(settings),
                    compression=compress_settings(settings),
                    limits=accounts.rights,
                    places=places,
                    search=search_in_time,
                    token_limits=accounts.rights,
                    user_of=accounts.rights.user_of,
                )
            )
        )
        stack.push_async_callback(agent.close)
        relays = tuple(
            Relay(store.log, stream, partition, RelayDelays())
            for partition in range(store.log.partitions)
        )
        yield Node(
            settings=settings,
            addresses=addresses,
            store=store,
            nats=nats,
            stream=stream,
            models=models,
            profiles=profiles,
            tools=tools,
            sandbox=sandbox,
            services=services,
            accounts=accounts,
            agent=agent,
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
            projector=Projector(store.log, store.read_models, PROJECTIONS, clock, rest=BUILD_REST),
            heads=await _sign_heads(settings, store, nats, clock),
            relays=relays,
            metrics=metrics,
            gauges=TakeGauges(
                store.log,
                store.read_models,
                relays,
                PROJECTIONS,
                running=lambda: len(agent.runs.running),
            ),
            traces=trace_export(environment, store),
        )


def _is_offered(tools: Callable[[], Tools], name: str) -> bool:
    return tools().find(name) is not None


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


def sandbox_of(settings: Settings) -> ProvenSandbox:
    """The sandbox as the settings want it; it is still to be found and to be proven."""
    return ProvenSandbox(
        wanted=settings.code_exec == "auto",
        packages=settings.code_packages_dir,
        proof=settings.sandbox_proof,
    )


def _calls(settings: Settings) -> CallSettings:
    return CallSettings(first_chunk_timeout=settings.llm_first_chunk_timeout)


def compress_settings(settings: Settings) -> CompressSettings:
    """When and how a node with these settings compresses contexts."""
    return CompressSettings(
        enabled=settings.compression_enabled,
        threshold=settings.compression_threshold,
        keep_recent=settings.keep_recent,
        temperature=settings.summary_temperature,
    )
