"""A real SSH server on the loopback, with keys made for it, and the file that names it to navi."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import psutil

PROGRAM = Path(__file__).with_name("ssh_program.py")
OPENSSH_SESSIONS = 10  # channels that its server gives a connection (MaxSessions)


class SshServer:
    """A server that can be killed and started again on its port.

    Attributes:
        directory: holds ``host`` and ``key``, private keys of the server and of navi, and ``known_hosts``.
    """

    def __init__(self, directory: Path, *, sessions: int = OPENSSH_SESSIONS) -> None:
        self.directory = directory
        self.port = 0
        self._sessions = sessions
        self._process: asyncio.subprocess.Process | None = None
        for name in ("host", "key"):
            make_key(directory / name)
        (directory / "authorized").write_text((directory / "key.pub").read_text())

    async def start(self) -> None:
        """Start it; its known_hosts names it from then on."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            str(self.directory),
            str(self.port),
            str(self._sessions),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        assert self._process.stdout is not None
        self.port = int(await self._process.stdout.readline())
        public = (self.directory / "host.pub").read_text()
        (self.directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")

    async def kill(self) -> None:
        """End it as the end of a machine would."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    def entry(self, **changes: Any) -> dict[str, Any]:
        """It as an entry of ssh.json."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "ada",
            "key_file": str(self.directory / "key"),
            "known_hosts": str(self.directory / "known_hosts"),
            **changes,
        }

    async def connections(self) -> int:
        """How many there are to it now."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        found = await asyncio.to_thread(server.net_connections, "tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED for one in found)

    async def until_connections(self, number: int) -> None:
        """Wait until there are so many; the test's own deadline ends it."""
        while await self.connections() != number:  # noqa: ASYNC110 - sockets tell nobody
            await asyncio.sleep(0.02)


def make_key(path: Path) -> None:
    """A key pair, the public one in ``.pub``."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.touch(mode=0o600)
    path.write_bytes(key.export_private_key())
    path.with_name(f"{path.name}.pub").write_bytes(key.export_public_key())


def write_hosts(file: Path, **hosts: dict[str, Any]) -> Path:
    """An ssh.json that names these hosts."""
    file.write_text(json.dumps(hosts))
    return file


@asynccontextmanager
async def ssh_server(
    directory: Path, *, sessions: int = OPENSSH_SESSIONS
) -> AsyncGenerator[SshServer, None]:
    """A running server; ``sessions`` are the channels of a connection."""
    server = SshServer(directory, sessions=sessions)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
