"""Run the servers of a data directory: start, restart when they die, stop."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import structlog
from msgspec import Struct

from navi.adapters.embedded.attach_lock import AttachLock
from navi.adapters.embedded.binaries import nats_program, postgres_directory
from navi.adapters.embedded.child import Child
from navi.adapters.embedded.errors import DataDirectoryInUse, EmbeddedServerError
from navi.adapters.embedded.identity import unprivileged_identity
from navi.adapters.embedded.lock import DirectoryLock
from navi.adapters.embedded.nats import NatsServer
from navi.adapters.embedded.nats_readers import READERS_HOME, NatsReaders
from navi.adapters.embedded.postgres import CLUSTER, PostgresServer
from navi.adapters.embedded.run_record import NodeRun, RunRecord, forget_run, read_run, record_run
from navi.log_error import log_error
from navi.race import race

DIRECTORIES = ("files", "profiles", "tools")
OWN_DIRECTORIES = ("postgres", "nats")  # of the servers
OWNER_TIMEOUT = 60.0  # seconds for an owner that is just starting to say where its servers are
GUESTS_TIMEOUT = 60.0  # seconds that a command waits at its end for others that use its servers
LOOK_SECONDS = 0.02
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0  # seconds before a server that ended is started again
STEADY = 30.0  # seconds after which a server counts as running well, and pauses are short again

log = structlog.get_logger()


class Addresses(Struct, frozen=True, kw_only=True):
    """Where the servers are; None where that server was not asked for."""

    database_url: str | None = None
    nats_url: str | None = None


class EmbeddedServer(Protocol):
    """A restartable server with a fixed address."""

    name: str

    @property
    def url(self) -> str: ...

    async def start(self) -> Child: ...

    async def stop(self, child: Child) -> None: ...


class EmbeddedServers:
    """The servers of a data directory, owned by this process or attached to.

    The loop has to run on a thread that outlives the servers, best the main thread: they end with
    the thread that started them.
    """

    def __init__(
        self,
        data_dir: Path,
        addresses: Addresses,
        lock: DirectoryLock | None,
        attached: AttachLock | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.addresses = addresses
        self._lock = lock
        self._attached = attached
        self.waits_for_guests = False
        self.nats_readers: NatsReaders | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._running: dict[str, tuple[EmbeddedServer, Child]] = {}
        self._stopping = asyncio.Event()

    @property
    def is_owner(self) -> bool:
        """Whether this process owns the servers; an attached one leaves them running."""
        return self._lock is not None

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        *,
        postgres: bool,
        nats: bool,
        nats_port: int | None,
        postgres_bin: Path | None = None,
        nats_bin: Path | None = None,
        postgres_settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Own the data directory and start the servers asked for; all answer when this returns.

        Args:
            nats_port: 0 for any; None for the usual one, or a free one where that is in use.
            postgres_bin: directory of another Postgres with pgvector, instead of the wheel's.
            postgres_settings: server settings beside the usual ones.

        Raises:
            DataDirectoryInUse: another process owns the directory; it carries the addresses.
            EmbeddedServerError: a server cannot be had; the message says why and what to do.
        """
        data_dir = await asyncio.to_thread(data_dir.resolve)
        lock = await asyncio.to_thread(_own, data_dir)
        if lock is None:
            raise DataDirectoryInUse(data_dir, await asyncio.to_thread(read_run, data_dir))
        servers = cls(data_dir, Addresses(), lock)
        try:
            wanted: list[EmbeddedServer] = []
            bus: NatsServer | None = None
            if postgres:
                cluster = await PostgresServer.prepare(
                    data_dir / "postgres",
                    binaries=await asyncio.to_thread(postgres_directory, postgres_bin),
                    identity=await unprivileged_identity(data_dir / "postgres"),
                    settings=postgres_settings or {},
                )
                wanted.append(cluster)
            if nats:
                program = await asyncio.to_thread(nats_program, nats_bin)
                bus = await NatsServer.prepare(data_dir / "nats", program=program, port=nats_port)
                wanted.append(bus)
            await servers._start_all(wanted)
            if bus is not None:
                servers.nats_readers = NatsReaders(
                    data_dir / READERS_HOME,
                    program=bus.program,
                    leaf_url=bus.leaf_url,
                    wanted_port=bus.port + 1,
                )
            urls = {server.name: server.url for server in wanted}
            servers.addresses = Addresses(
                database_url=urls.get("postgres"), nats_url=urls.get("nats")
            )
            await servers.record(
                RunRecord(
                    pid=os.getpid(),
                    database_url=servers.addresses.database_url,
                    nats_url=servers.addresses.nats_url,
                )
            )
        except BaseException:
            await servers.stop()
            raise
        return servers

    async def record(self, run: RunRecord) -> None:
        """Tell other commands where this process is; only the owner may."""
        await asyncio.to_thread(record_run, self.data_dir, run)

    async def stop(self) -> None:
        """Stop the servers and release the directory. An attached process only detaches."""
        if self._attached is not None:
            self._attached.release()
            self._attached = None
        if self._lock is None:
            return
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(forget_run, self.data_dir)
        if self.waits_for_guests:
            await self._wait_for_attached()
        self._stopping.set()
        stopping = [] if self.nats_readers is None else [self.nats_readers.stop()]
        # One that fails takes neither the others' end nor the directory's along.
        ended = await asyncio.gather(*stopping, *self._keepers, return_exceptions=True)
        self._keepers.clear()
        self._lock.release()
        self._lock = None
        for error in ended:
            if error is not None:
                raise error

    async def restart(self, name: str) -> None:
        """Stop a server; it is started again at once. Nothing where it is not running."""
        if name in self._running:
            log.warning("embedded_server_restarted", server=name)
            server, child = self._running[name]
            await server.stop(child)

    async def _wait_for_attached(self) -> None:
        """Wait for attached processes to finish; no new ones can attach."""
        deadline = time.monotonic() + GUESTS_TIMEOUT
        while time.monotonic() < deadline:
            closed = await asyncio.to_thread(AttachLock.close, self.data_dir)
            if closed is not None:
                closed.release()
                return
            await asyncio.sleep(LOOK_SECONDS)
        log.warning("guests_left_behind", data_dir=str(self.data_dir))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _start_all(self, wanted: list[EmbeddedServer]) -> None:
        started = await asyncio.gather(
            *(server.start() for server in wanted), return_exceptions=True
        )
        failures: list[BaseException] = []
        for server, child in zip(wanted, started, strict=True):
            if isinstance(child, BaseException):
                failures.append(child)
            else:
                # Not a TaskGroup: its life is that of this object, and `stop` awaits every one.
                keeper = asyncio.create_task(self._keep(server, child), name=f"keep {server.name}")
                self._keepers.append(keeper)
        if failures:
            raise failures[0]

    async def _keep(self, server: EmbeddedServer, child: Child) -> None:
        """Start the server again whenever it ends, until it is to stop; then stop it."""
        pause = FIRST_PAUSE
        running: Child | None = child
        since = time.monotonic()
        while not self._stopping.is_set():
            if running is not None:
                self._running[server.name] = server, running
                await race(running.wait(), self._stopping.wait())
                del self._running[server.name]
                if self._stopping.is_set():
                    break
                log.warning("embedded_server_ended", server=server.name, status=running.exit_status)
                pause = FIRST_PAUSE if time.monotonic() - since > STEADY else pause
            await race(asyncio.sleep(pause), self._stopping.wait())
            pause = min(pause * 2, LONGEST_PAUSE)
            if self._stopping.is_set():
                break
            try:
                running = await server.start()
            except (EmbeddedServerError, OSError) as error:
                running = None
                log.error("embedded_server_down", server=server.name, reason=str(error))  # noqa: TRY400  # the reason is whole, the traceback says nothing
            except Exception as error:  # noqa: BLE001 - a border: drivers raise anything while a server starts, and nobody else would start it again
                running = None
                log_error(log.bind(server=server.name), "embedded_server_down", error)
            else:
                since = time.monotonic()
                log.info("embedded_server_started_again", server=server.name, pid=running.pid)
        if running is not None:
            await server.stop(running)


async def open_or_attach(
    data_dir: Path,
    *,
    postgres: bool,
    nats: bool,
    nats_port: int | None,
    postgres_bin: Path | None = None,
    nats_bin: Path | None = None,
) -> EmbeddedServers:
    """The servers of a data directory for a command that reads: a running navi's, or its own.

    Raises:
        DataDirectoryInUse: the owner runs without a server that is asked for, or never says.
        EmbeddedServerError: as `EmbeddedServers.start`.
    """
    deadline = time.monotonic() + OWNER_TIMEOUT
    while True:
        try:
            servers = await EmbeddedServers.start(
                data_dir,
                postgres=postgres,
                nats=nats,
                nats_port=nats_port,
                postgres_bin=postgres_bin,
                nats_bin=nats_bin,
            )
        except DataDirectoryInUse as busy:
            run, attached = await asyncio.to_thread(_attach, busy.data_dir)
            if run is None or attached is None:  # just starting, or just ending: it is over soon
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
                continue
            if (postgres and run.database_url is None) or (nats and run.nats_url is None):
                attached.release()
                raise
            addresses = Addresses(
                database_url=run.database_url if postgres else None,
                nats_url=run.nats_url if nats else None,
            )
            return EmbeddedServers(busy.data_dir, addresses, None, attached)
        else:
            servers.waits_for_guests = True
            return servers


def _attach(data_dir: Path) -> tuple[RunRecord | None, AttachLock | None]:
    """Attach to the owner of the directory; None if it has no running servers.

    An owner that ends removes its record and then looks for guests: who is one and still finds the
    record was seen.
    """
    attached = AttachLock.acquire(data_dir)
    if attached is None:
        return None, None
    run = read_run(data_dir)
    if run is None:
        attached.release()
        return None, None
    return run, attached


def _own(data_dir: Path) -> DirectoryLock | None:
    """Make the data directory and take its lock; None where another process has it."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = DirectoryLock.acquire(data_dir)
    if lock is not None:
        forget_run(data_dir)  # of a run that was killed
        _make_directories(data_dir, (*OWN_DIRECTORIES, *DIRECTORIES))
        AttachLock.prepare(data_dir)
    return lock


def has_cluster(data_dir: Path) -> bool:
    """Whether there is an embedded Postgres in a data directory, running or not. Blocks."""
    return (data_dir / PostgresServer.name / CLUSTER).exists()


def open_node_run(data_dir: Path) -> NodeRun:
    """The record of a node that was given its servers, in a data directory that is made where it is missing.

    Blocks.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _make_directories(data_dir, DIRECTORIES)
    return NodeRun.open(data_dir)


def _make_directories(data_dir: Path, names: Sequence[str]) -> None:
    for name in names:
        (data_dir / name).mkdir(mode=0o700, exist_ok=True)
