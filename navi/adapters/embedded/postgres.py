"""The embedded Postgres: reached over a unix socket, whose directory is the authentication."""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

import asyncpg
import psutil

from navi.adapters.embedded.child import Child, Identity, kill_process_tree, log_tail, rotate_log
from navi.adapters.embedded.errors import ServerDidNotStart, UnsuitableCluster
from navi.adapters.embedded.identity import hand_over

USER = "navi"
DATABASE = "navi"
CLUSTER = "cluster"  # in its directory
PORT = 5432  # only part of the socket's file name; nothing listens on TCP
SOCKET_PATH_LIMIT = 103  # bytes: 103 on macOS, 107 on Linux
STARTUP_TIMEOUT = 300.0  # seconds; replaying the log after a crash may take minutes
PREDECESSOR_TIMEOUT = 60.0  # seconds for a postmaster whose navi has died to shut down
ATTEMPTS = 4  # after a killed postmaster, its backends hold the shared memory for a moment
STOP_STEPS = (
    (signal.SIGINT, 20.0),  # fast: roll back, checkpoint, go
    (signal.SIGQUIT, 5.0),  # immediate: recovers at the next start
)
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # After a crash all of it is started anew, by navi. Postgres 18 that starts itself anew on a full disk
    # may lose its startup process without a word, and refuse every connection from then on.
    "restart_after_crash": "off",
}

CREATE_DATABASE = f"CREATE DATABASE {DATABASE}"
CREATE_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"
DATABASE_EXISTS = "SELECT true FROM pg_database WHERE datname = $1"


class PostgresServer:
    """One cluster below ``<data>/postgres``: ``cluster/``, ``socket/``, ``postgres.log``."""

    name = "postgres"

    def __init__(
        self,
        home: Path,
        *,
        binaries: Path,
        identity: Identity,
        settings: Mapping[str, str],
        socket_dir: Path,
    ) -> None:
        self._cluster = home / CLUSTER
        self._log = home / "postgres.log"
        self._binaries = binaries
        self._identity = identity
        self._settings = SETTINGS | dict(settings)
        self._socket_dir = socket_dir

    @classmethod
    async def prepare(
        cls, home: Path, *, binaries: Path, identity: Identity, settings: Mapping[str, str]
    ) -> Self:
        """The server of ``home``, with a cluster in it; made by `initdb` the first time."""
        socket_dir = await asyncio.to_thread(_make_directories, home, identity)
        server = cls(
            home, binaries=binaries, identity=identity, settings=settings, socket_dir=socket_dir
        )
        await server._make_cluster()
        return server

    @property
    def url(self) -> str:
        return self._url(DATABASE)

    async def start(self) -> Child:
        """Start the server; when this returns it answers queries and has the database `navi`.

        Raises:
            ServerDidNotStart: it ended again and again, or did not answer in time.
        """
        for attempt in range(1, ATTEMPTS + 1):
            foreign = await asyncio.to_thread(self._clear_the_way)
            child = await Child.spawn(
                [
                    *(str(self._binaries / "postgres"), "-D", str(self._cluster)),
                    *("-k", str(self._socket_dir), "-p", str(PORT)),
                    *(f"--{name}={value}" for name, value in self._settings.items()),
                ],
                log=self._log,
                identity=self._identity,
                farewell=signal.SIGINT,
                # Makes Postgres disregard a pid file whose number another process has by now.
                environment={} if foreign is None else {"PG_GRANDPARENT_PID": str(foreign)},
            )
            if await self._answers(child):
                return child
            if attempt < ATTEMPTS:
                await asyncio.sleep(0.1 * 2**attempt)
        raise await self._failure("it ended while starting")

    async def stop(self, child: Child) -> None:
        """Shut down fast, and at once where that takes too long."""
        await child.stop(*STOP_STEPS)

    async def _answers(self, child: Child) -> bool:
        """Wait for the first query to be answered; False where the server ended instead."""
        deadline = time.monotonic() + STARTUP_TIMEOUT
        while child.exit_status is None:
            try:
                await self._make_database()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                if time.monotonic() > deadline:
                    await self.stop(child)
                    raise await self._failure("it did not answer in time") from None
                await asyncio.sleep(0.02)
            else:
                return True
        return False

    async def _make_database(self) -> None:
        connection = await asyncpg.connect(self._url("postgres"), timeout=5)
        try:
            if not await connection.fetchval(DATABASE_EXISTS, DATABASE):
                await connection.execute(CREATE_DATABASE)
        finally:
            await connection.close(timeout=5)
        connection = await asyncpg.connect(self.url, timeout=5)
        try:
            await connection.execute(CREATE_EXTENSION)
        finally:
            await connection.close(timeout=5)

    async def _make_cluster(self) -> None:
        version_file = self._cluster / "PG_VERSION"
        if await asyncio.to_thread(version_file.exists):
            stored = (await asyncio.to_thread(version_file.read_text)).strip()
            installed = await self._installed_version()
            if stored != installed:
                raise UnsuitableCluster(self._cluster, stored=stored, installed=installed)
            return
        # Made beside and renamed, so that one that was interrupted is never taken for a whole one.
        draft = self._cluster.with_name("cluster.draft")
        await asyncio.to_thread(_make_empty, draft, self._identity)
        child = await Child.spawn(
            [
                *(str(self._binaries / "initdb"), "-D", str(draft), "-U", USER, "-E", "UTF8"),
                *("--locale=C.UTF-8", "--auth=trust"),
            ],
            log=self._log,
            identity=self._identity,
            farewell=signal.SIGKILL,
        )
        if await child.wait() != 0:
            raise await self._failure("initdb failed")
        await asyncio.to_thread(draft.replace, self._cluster)

    async def _installed_version(self) -> str:
        process = await asyncio.create_subprocess_exec(
            str(self._binaries / "initdb"), "--version", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return output.decode().split()[-1].partition(".")[0]  # "initdb (PostgreSQL) 18.4"

    def _clear_the_way(self) -> int | None:
        """Clean up after an earlier run; gives a foreign process that has its pid."""
        rotate_log(self._log)
        pid_file = self._cluster / "postmaster.pid"
        try:
            first_line = pid_file.read_text().partition("\n")[0].strip()
        except FileNotFoundError:
            return None
        if not first_line:
            # Postgres refuses to start over an empty one. navi.lock says that nobody is writing it.
            pid_file.unlink()
            return None
        pid = abs(int(first_line))
        if not _is_postmaster(pid, self._cluster):
            return pid if psutil.pid_exists(pid) else None
        # Its navi was killed a moment ago, and it is shutting down; make sure that it does.
        for number, seconds in ((None, 1.0), (signal.SIGINT, PREDECESSOR_TIMEOUT)):
            if number is not None:
                psutil.Process(pid).send_signal(number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not _is_postmaster(pid, self._cluster):
                    return None
                time.sleep(0.02)
        kill_process_tree(pid)
        return None

    async def _failure(self, reason: str) -> ServerDidNotStart:
        return ServerDidNotStart(
            "Postgres",
            reason=reason,
            log=self._log,
            log_tail=await asyncio.to_thread(log_tail, self._log),
            variable="DATABASE_URL",
        )

    def _url(self, database: str) -> str:
        # The port is named because PGPORT would count otherwise.
        directory = quote(str(self._socket_dir), safe="/")
        return f"postgresql://{USER}@/{database}?host={directory}&port={PORT}"


def _is_postmaster(pid: int, cluster: Path) -> bool:
    """Whether the living process is the server of this very cluster: it works in its directory."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == cluster.resolve()
    except psutil.Error:
        return False


def _make_directories(home: Path, identity: Identity) -> Path:
    """Make what is missing; gives a directory for the socket whose path is short enough."""
    home.mkdir(mode=0o700, exist_ok=True)
    socket_dir = home / "socket"
    if len(os.fsencode(socket_dir / f".s.PGSQL.{PORT}")) > SOCKET_PATH_LIMIT:
        socket_dir = _short_directory(home / "socket-dir")
    socket_dir.mkdir(mode=0o700, exist_ok=True)
    socket_dir.chmod(0o700)
    if identity is Identity.NOBODY and home.stat().st_uid == 0:
        hand_over(home, identity)
    hand_over(socket_dir, identity)
    return socket_dir


def _short_directory(note: Path) -> Path:
    """A private directory elsewhere, the same one at every start: ``note`` holds its path."""
    if note.exists():
        known = Path(note.read_text())
        # Anybody may have made one of this name since; a link or a stranger's is not ours.
        if known.is_dir() and not known.is_symlink() and known.stat().st_uid == os.geteuid():
            return known
    made = Path(tempfile.mkdtemp(prefix="navi-"))
    if len(os.fsencode(made)) > SOCKET_PATH_LIMIT - 20:
        made.rmdir()
        made = Path(tempfile.mkdtemp(prefix="navi-", dir="/tmp"))
    note.write_text(str(made))
    return made


def _make_empty(directory: Path, identity: Identity) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    directory.mkdir(mode=0o700, exist_ok=True)
    hand_over(directory, identity)
