"""Start the embedded servers that the settings ask for, and tell their addresses."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import structlog

from navi import __version__
from navi.adapters.embedded.errors import DataDirectoryInUse, NoCluster
from navi.adapters.embedded.lock import is_held
from navi.adapters.embedded.nats import USUAL_PORT, NatsServer
from navi.adapters.embedded.run_record import NODES, RunRecord, read_node_run
from navi.adapters.embedded.servers import Addresses, EmbeddedServers, has_cluster, open_node_run
from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.processes.channel import Ready
from navi.adapters.system import SystemClock
from navi.application.followers.relay import Degraded, Relay
from navi.settings import Settings

log = structlog.get_logger()

Tell: TypeAlias = Callable[[RunRecord], Awaitable[None]]

READERS_SECONDS = 20.0  # what a server that starts waits for commands that read
READERS_LOOK_SECONDS = 0.1
REVIVE_LOOK_SECONDS = 1.0
REVIVED_SECONDS = 10.0  # what a relay has to get on after NATS was started again
MOST_CONNECTIONS = 200  # of an embedded Postgres, where no more are wanted
LEAST_ROOM = 4 * 1024 * 1024  # bytes; with less NATS would soon be where it was


@asynccontextmanager
async def open_servers(
    settings: Settings, *, connections: int = MOST_CONNECTIONS
) -> AsyncGenerator[EmbeddedServers | None, None]:
    """The embedded servers that the settings ask for; None if both have an address.

    Args:
        connections: that are wanted of an embedded Postgres; it allows more.
    """
    if settings.database_url is not None and settings.nats_url is not None:
        yield None
        return
    async with await _start_servers(settings, connections) as servers:
        yield servers


async def _start_servers(settings: Settings, connections: int) -> EmbeddedServers:
    """Own the data directory; waits for a command that holds it for a moment.

    Raises:
        DataDirectoryInUse: another navi has it, or works on it with servers of its own.
    """
    node = await asyncio.to_thread(read_node_run, settings.data_dir)
    if node is not None and settings.database_url is None:
        # Most likely DATABASE_URL was forgotten; here another, empty log would begin.
        raise DataDirectoryInUse(settings.data_dir, node)
    if settings.database_url is None and await asyncio.to_thread(log_is_elsewhere, settings):
        raise NoCluster(settings.data_dir)
    clock = SystemClock()
    deadline = clock.monotonic() + READERS_SECONDS
    while True:
        try:
            return await EmbeddedServers.start(
                settings.data_dir,
                postgres=settings.database_url is None,
                nats=settings.nats_url is None,
                nats_port=_nats_port(settings),
                postgres_bin=settings.postgres_bin,
                nats_bin=settings.nats_bin,
                postgres_settings={"max_connections": str(max(connections, MOST_CONNECTIONS))},
            )
        except DataDirectoryInUse as busy:
            is_server = busy.run is not None and busy.run.http_url is not None
            if is_server or clock.monotonic() > deadline:
                raise
            await asyncio.sleep(READERS_LOOK_SECONDS)


def log_is_elsewhere(settings: Settings) -> bool:
    """Whether a node worked here on a log that no embedded Postgres has, and no navi runs that could say where it is.

    It has signed it, or left the folder of nodes that were given their servers: of several nodes one signs.
    """
    return (
        any((settings.data_dir / name).exists() for name in (HEADS_FILE, NODES))
        and not has_cluster(settings.data_dir)
        and not is_held(settings.data_dir)
    )


def _nats_port(settings: Settings) -> int | None:
    """As it was named; any where none was, and HTTP is to listen at the usual one."""
    if settings.nats_port is None and settings.port == USUAL_PORT:
        return 0
    return settings.nats_port


@asynccontextmanager
async def known_to_commands(
    settings: Settings, servers: EmbeddedServers | None
) -> AsyncGenerator[Tell, None]:
    """How to tell commands on the same data directory where this process is; till the block ends."""
    if servers is not None:
        yield servers.record
        return
    node = await asyncio.to_thread(open_node_run, settings.data_dir)

    async def tell(run: RunRecord) -> None:
        await asyncio.to_thread(node.write, run)

    try:
        yield tell
    finally:
        await asyncio.to_thread(node.close)


def run_of(settings: Settings, addresses: Addresses, url: str, ready: Ready) -> RunRecord:
    """The record of this process, which serves at an address with the model of a node."""
    return RunRecord(
        pid=os.getpid(),
        database_url=addresses.database_url,
        database_given=settings.database_url is not None,
        nats_url=addresses.nats_url,
        nats_given=settings.nats_url is not None,
        http_url=url,
        version=__version__,
        model_backend=ready.model_backend,
        model_name=ready.model_name,
        model_window=ready.model_window,
        model_slots=ready.model_slots,
    )


def addresses_of(settings: Settings, servers: EmbeddedServers | None) -> Addresses:
    """Where Postgres and NATS are, given or embedded."""
    own = servers.addresses if servers is not None else Addresses()
    return Addresses(
        database_url=settings.database_url or own.database_url,
        nats_url=settings.nats_url or own.nats_url,
    )


@asynccontextmanager
async def watching_streams(
    relays: Sequence[Relay], stalled: Callable[[], None]
) -> AsyncGenerator[None, None]:
    """Tell, while the block runs, whenever the streams of NATS have stopped taking messages."""
    watching = asyncio.create_task(_watch_streams(relays, stalled), name="streams")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch_streams(relays: Sequence[Relay], stalled: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(REVIVE_LOOK_SECONDS)
        if any(isinstance(r.state, Degraded) and r.state.stalled for r in relays):
            stalled()


@asynccontextmanager
async def reviving_nats(
    servers: EmbeddedServers | None,
) -> AsyncGenerator[Callable[[], None], None]:
    """Restart the embedded NATS while the block runs, whenever it is called for; gives the call.

    A nats-server whose disk was full answers everything but what is to be stored, for ever.
    """
    asked = asyncio.Event()
    if servers is None or servers.addresses.nats_url is None:
        yield asked.set
        return
    reviver = asyncio.create_task(_revive_nats(servers, asked), name="nats reviver")
    try:
        yield asked.set
    finally:
        reviver.cancel()
        await asyncio.wait({reviver})


async def _revive_nats(servers: EmbeddedServers, asked: asyncio.Event) -> None:
    store = servers.data_dir / NatsServer.name
    while True:
        await asked.wait()
        try:
            room = (await asyncio.to_thread(shutil.disk_usage, store)).free
            if room >= LEAST_ROOM:
                await servers.restart(NatsServer.name)
        except OSError as error:
            log.warning("nats_not_revived", reason=error.strerror)
        await asyncio.sleep(REVIVED_SECONDS)
        asked.clear()  # what was told meanwhile may be from before
