"""Sockets without anything behind them: what frames cost alone, and clients to read them."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import uvicorn
from litestar import Litestar, WebSocket, websocket
from litestar.datastructures import State
from litestar.params import FromPath

from bench.socket_clients import TIMEOUT, Job, Seen
from navi.http.server.serve import serving

PATH = "/ws/sessions/{}"

Socket = WebSocket[Any, Any, State]
Writing = Callable[[Socket, str], Coroutine[Any, Any, None]]


def app_of(write: Writing) -> Litestar:
    """An application whose sockets do nothing but ``write(socket, session id)``."""

    @websocket("/ws/sessions/{session_id:str}")
    async def handler(socket: Socket, session_id: FromPath[str]) -> None:
        await socket.accept()
        writing = asyncio.create_task(write(socket, session_id))
        try:
            await socket.receive()  # clients say nothing: they go
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    return Litestar([handler], openapi_config=None, logging_config=None)


@asynccontextmanager
async def serving_as_navi(app: Litestar) -> AsyncGenerator[int, None]:
    """Serve with navi's own server; gives the port."""
    async with serving(app, host="127.0.0.1", port=0) as address:
        yield address.port


@asynccontextmanager
async def serving_as_uvicorn(app: Litestar) -> AsyncGenerator[int, None]:
    """Serve with uvicorn as it comes, its best WebSocket protocol, no deflate; gives the port."""
    server = uvicorn.Server(
        uvicorn.Config(
            cast("Any", app),
            port=0,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            lifespan="off",
            log_level="warning",
            access_log=False,
        )
    )
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn has only a flag
            await asyncio.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        server.force_exit = True
        await running


class RunningClients:
    """A process of clients that are connected."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def seen(self) -> Seen:
        """End them, unless they end by themselves, and take what they saw."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        async with asyncio.timeout(TIMEOUT):
            line = await self._process.stdout.readline()
            await self._process.wait()
        assert line, f"the clients ended with status {self._process.returncode}"
        return msgspec.json.decode(line, type=Seen)


@asynccontextmanager
async def clients(job: Job) -> AsyncGenerator[RunningClients, None]:
    """Clients in a process of their own, all connected when this is entered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.socket_clients", msgspec.json.encode(job).decode(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            assert await process.stdout.readline() == b"ready\n"
        yield RunningClients(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
