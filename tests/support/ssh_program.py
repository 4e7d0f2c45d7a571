"""An SSH server with real commands, run as a program by tests; it does as OpenSSH's does.

Each command is a process in a session of its own, and outlives its channel and its connection. Arguments:
a directory with ``host`` (its key) and ``authorized`` (who may log in), the port (0 for a free one), and
how many channels a connection is given at once. It prints its port once it listens.
"""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.constants import OPEN_RESOURCE_SHORTAGE
from asyncssh.packet import UInt32

NUMBERS = count(1)


class Server(asyncssh.SSHServer):
    """A connection."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._number = next(NUMBERS)
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def session_requested(self) -> "asyncssh.SSHServerProcess[bytes]":
        if self._open == self._most:
            raise asyncssh.ChannelOpenError(OPEN_RESOURCE_SHORTAGE, "no more sessions")
        self._open += 1
        return asyncssh.SSHServerProcess(self._run, None, 3, False)

    async def _run(self, channel: "asyncssh.SSHServerProcess[bytes]") -> None:
        try:
            program = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                channel.command or "exit 1",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={
                    "PATH": os.environ["PATH"],  # noqa: TID251  # a program of its own
                    "SHELL": "/bin/bash",
                    "SSH_CONNECTION": str(self._number),
                    "FORWARDED": await self._forwarded(),
                    **{name: str(value) for name, value in channel.env.items()},
                },
            )
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stderr is not None
            copying = asyncio.gather(
                copy(channel.stdin, program.stdin),
                copy(program.stdout, channel.stdout),
                copy(program.stderr, channel.stderr),
            )
            while program.returncode is None:  # noqa: ASYNC110  # `wait` waits for the pipes as well
                await asyncio.sleep(0.01)
            # Told at once; the channel is closed when nobody can write to it any more.
            channel.channel._send_request(b"exit-status", UInt32(program.returncode % 256))
            await copying
            channel.close()
        finally:
            self._open -= 1

    async def _forwarded(self) -> str:
        """What the client would let this host reach."""
        client: Any = self._connection
        asking = {
            "agent": client.create_agent_connection(asyncssh.SSHUNIXSession),
            "x11": client.create_x11_connection(asyncssh.SSHTCPSession),
            "port": client.create_connection(asyncssh.SSHTCPSession, "127.0.0.1", 22),
        }
        found: list[str] = []
        for name, asked in asking.items():
            try:
                await asked
            except (asyncssh.Error, OSError):
                continue
            found.append(name)
        return " ".join(found)


async def copy(reader: Any, writer: Any) -> None:
    """All of it, until its end."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    if isinstance(writer, asyncio.StreamWriter):
        writer.close()


async def main(directory: Path, port: int, most: int) -> None:
    """Serve until killed."""
    listener = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=lambda: Server(most),
        server_host_keys=[str(directory / "host")],
        authorized_client_keys=str(directory / "authorized"),
        config=None,
        encoding=None,
        reuse_address=True,
    )
    print(listener.get_port(), flush=True)  # noqa: T201  # that is how it tells
    await listener.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
