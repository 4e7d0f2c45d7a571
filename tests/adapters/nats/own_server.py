"""A nats-server of one test, which may be stopped, killed, frozen and thrown back in time."""

import asyncio
import os
import shutil
import signal
import socket
import sys
import weakref
from pathlib import Path

from navi.adapters.embedded.binaries import nats_program

TOKEN = "t0ken-of-the-test"  # noqa: S105 - of a server that lives as long as a test


class OwnServer:
    """Always on the same port and in the same directory; ``url`` includes the token.

    Args:
        access: in the server's configuration, who may come in.
    """

    def __init__(
        self, directory: Path, *, access: str = f"authorization {{ token: {TOKEN} }}"
    ) -> None:
        self._directory = directory
        self._access = access
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        keeper = socket.socket()
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        keeper.bind(("127.0.0.1", 0))
        self._port = keeper.getsockname()[1]
        if sys.platform == "linux":  # nobody else is given the port, also not between two starts
            weakref.finalize(self, keeper.close)
        else:
            keeper.close()

    @property
    def url(self) -> str:
        return self.url_of(TOKEN)

    def url_of(self, login: str) -> str:
        """Its address with a token, or with ``user:password``."""
        return f"nats://{login}@127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start it, and return when it accepts connections."""
        program = await asyncio.to_thread(nats_program, None)
        configuration = self._directory / "nats.conf"
        configuration.write_text(
            f'listen: "127.0.0.1:{self._port}"\n'
            f"{self._access}\n"
            f'jetstream {{ store_dir: "{self._directory}" }}\n'
        )
        self._process = await asyncio.create_subprocess_exec(
            program, "-c", configuration, stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        async with asyncio.timeout(60):
            while b"Server is ready" not in await self._process.stderr.readline():
                assert self._process.returncode is None
        self._drain = asyncio.create_task(_drain(self._process.stderr))

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # Its threads on other processors go on until the signal has reached them.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def keep_a_copy(self) -> None:
        """Remember the store as it is; the server must be down."""
        shutil.copytree(self._directory / "jetstream", self._directory / "copy")

    def go_back_to_the_copy(self) -> None:
        """Put the remembered store in place of the present one; the server must be down."""
        shutil.rmtree(self._directory / "jetstream")
        shutil.copytree(self._directory / "copy", self._directory / "jetstream")

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        os.kill(process.pid, signal.SIGCONT)
        process.send_signal(number)
        await process.wait()
        if self._drain is not None:
            await self._drain


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass
