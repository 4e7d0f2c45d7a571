"""The embedded NATS with JetStream: on the loopback, behind a random token."""

import asyncio
import os
import secrets
import signal
import socket
import time
from pathlib import Path
from typing import Self

import psutil
from nats import errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from navi.adapters.embedded.child import Child, Identity, kill_process_tree, log_tail
from navi.adapters.embedded.errors import PortTaken, ServerDidNotStart

LOOPBACK = "127.0.0.1"
USUAL_PORT = 4222
HIGHEST_PORT = 65535
# Of JetStream: a leaf, the server of readers, sends requests to that of another server by name only.
DOMAIN = "navi"
MAX_PAYLOAD = "8MB"  # the default of 1 MB is less than a long tool result
STARTUP_TIMEOUT = 60.0  # seconds; a large store is checked first
ATTEMPTS = 3
STOP_STEPS = ((signal.SIGTERM, 10.0),)

CONFIGURATION = """\
# Written by navi at every start.
server_name: navi
listen: "{host}:{port}"
pid_file: {pid_file}
max_payload: {max_payload}
authorization {{ token: {token} }}
jetstream {{ store_dir: {store}, domain: {domain} }}
leafnodes {{ listen: "{host}:{leaf_port}", authorization {{ user: navi, password: "{leaf_password}" }} }}
"""


class NatsServer:
    """One server below ``<data>/nats``: ``jetstream/``, ``token``, ``nats.conf``, ``nats.log``."""

    name = "nats"

    def __init__(self, home: Path, *, program: Path, token: str, wanted: int | None) -> None:
        self.program = program
        self._home = home
        self._token = token
        self._wanted = wanted
        self._port = 0
        self._configuration = home / "nats.conf"
        self._pid_file = home / "nats.pid"
        self._log = home / "nats.log"
        self._leaf_port = 0
        self._leaf_password = secrets.token_hex(24)
        self._is_known = False  # it has run, and others have its ports

    @classmethod
    async def prepare(cls, home: Path, *, program: Path, port: int | None) -> Self:
        """The server of ``home`` on the port; None for the usual one, or a free one where that is taken.

        Raises:
            PortTaken: somebody else listens on the port that was asked for.
        """
        token = await asyncio.to_thread(_make_home, home)
        server = cls(home, program=program, token=token, wanted=port)
        # First, because a predecessor that is still going down has the port.
        await asyncio.to_thread(server._end_predecessor)
        server._choose_ports()
        return server

    @property
    def url(self) -> str:
        return f"nats://{self._token}@{LOOPBACK}:{self._port}"

    @property
    def leaf_url(self) -> str:
        """Where the server of readers connects to; good for as long as this process."""
        return f"nats-leaf://navi:{self._leaf_password}@{LOOPBACK}:{self._leaf_port}"

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> Child:
        """Start the server; when this returns its JetStream answers, and its ports stay what they are.

        Raises:
            PortTaken: somebody else listens by now on the port that was asked for.
            ServerDidNotStart: it ended again and again, or did not answer in time.
        """
        for attempt in range(1, ATTEMPTS + 1):
            # Two servers on one store would spoil it, and NATS itself does not look.
            await asyncio.to_thread(self._end_predecessor)
            if attempt > 1 and not self._is_known:
                self._choose_ports()  # somebody may have taken one since it was chosen
            await asyncio.to_thread(self._configure)
            child = await Child.spawn(
                [str(self.program), "--config", str(self._configuration)],
                log=self._log,
                identity=Identity.SAME,
                farewell=signal.SIGTERM,
            )
            if await self._answers(child):
                self._is_known = True
                return child
            if attempt < ATTEMPTS:
                await asyncio.sleep(0.1 * 2**attempt)
        raise await self._failure("it ended while starting")

    async def stop(self, child: Child) -> None:
        """Stop the server gracefully, which closes the store cleanly."""
        await child.stop(*STOP_STEPS)

    def _choose_ports(self) -> None:
        self._port = free_port(USUAL_PORT if self._wanted is None else self._wanted)
        if self._wanted and self._port != self._wanted:
            raise PortTaken("NATS", port=self._wanted, variable="NAVI_NATS_PORT")
        self._leaf_port = free_port(0, besides=self._port)

    async def _answers(self, child: Child) -> bool:
        """Wait for JetStream to answer; False where the server ended instead."""
        deadline = time.monotonic() + STARTUP_TIMEOUT
        while child.exit_status is None:
            try:
                await self._ask()
            except (OSError, errors.Error, TimeoutError):
                if time.monotonic() > deadline:
                    await self.stop(child)
                    raise await self._failure("it did not answer in time") from None
                await asyncio.sleep(0.02)
            else:
                return True
        return False

    async def _ask(self) -> None:
        # nats-py logs every refused connection; a bare one tells whether anybody listens.
        _, writer = await asyncio.wait_for(asyncio.open_connection(LOOPBACK, self._port), 5)
        writer.close()
        await writer.wait_closed()
        client = Client()
        try:
            await client.connect(
                self.url, allow_reconnect=False, connect_timeout=5, error_cb=ignore
            )
            await JetStreamContext(client, timeout=5).account_info()
        finally:
            await client.close()

    def _configure(self) -> None:
        """Write the configuration, readable by its owner only: arguments are seen by everybody."""
        text = CONFIGURATION.format(
            host=LOOPBACK,
            port=self._port,
            pid_file=quoted(str(self._pid_file)),
            max_payload=MAX_PAYLOAD,
            token=quoted(self._token),
            domain=DOMAIN,
            leaf_port=self._leaf_port,
            leaf_password=self._leaf_password,
            store=quoted(str(self._home)),  # NATS makes `jetstream` in it
        )
        write_private(self._configuration, text)

    def _end_predecessor(self) -> None:
        """End the server of a navi that died, and wait until it has."""
        try:
            pid = int(self._pid_file.read_text().strip() or "0")
        except (FileNotFoundError, ValueError):
            return
        if self._is_ours(pid):
            psutil.Process(pid).send_signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_STEPS[0][1]
            while self._is_ours(pid):
                if time.monotonic() > deadline:
                    kill_process_tree(pid)
                time.sleep(0.02)
        self._pid_file.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        """Whether the living process is a server with our configuration, not one with its pid."""
        try:
            process = psutil.Process(pid)
            return process.status() != psutil.STATUS_ZOMBIE and (
                str(self._configuration) in process.cmdline()
            )
        except psutil.Error:
            return False

    async def _failure(self, reason: str) -> ServerDidNotStart:
        return ServerDidNotStart(
            "NATS",
            reason=reason,
            log=self._log,
            log_tail=await asyncio.to_thread(log_tail, self._log),
            variable="NATS_URL",
        )


def quoted(text: str) -> str:
    """A string of NATS's configuration, which knows bytes as hex and none of JSON's escapes."""
    plain = frozenset(range(0x20, 0x7F)) - {ord('"'), ord("\\")}
    bytes_ = os.fsencode(text)
    return '"' + "".join(chr(b) if b in plain else f"\\x{b:02x}" for b in bytes_) + '"'


def free_port(wanted: int, *, besides: int | None = None) -> int:
    """The wanted port of the loopback, or any free one where that is taken; 0 wants any.

    Args:
        besides: one that is free only because nobody listens there yet.
    """
    for port in (wanted if wanted <= HIGHEST_PORT else 0, 0, 0, 0):
        with socket.socket() as probe:
            # Like NATS itself: a connection that lingers after a stop does not occupy the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            found = int(probe.getsockname()[1])
            if found != besides:
                return found
    raise OSError("no free port on the loopback")


def _make_home(home: Path) -> str:
    """Make the directory; gives the token, which stays so that consumers keep their address."""
    home.mkdir(mode=0o700, exist_ok=True)
    token_file = home / "token"
    if token_file.exists() and (known := token_file.read_text().strip()):
        return known
    token = secrets.token_hex(24)
    write_private(token_file, token)
    return token


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner only."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


async def ignore(_: Exception) -> None:
    """What goes wrong while connecting is raised as well."""
