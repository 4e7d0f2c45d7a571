"""Run uvicorn in navi's event loop; signals and shutdown are navi's."""

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, cast

import uvicorn
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from navi.domain.vocabulary.errors import BadInput, NaviError
from navi.http.server.address import Address
from navi.http.server.request_protocol import DeadlineH11Protocol
from navi.http.server.websocket_protocol import BurstWebSocketProtocol

MAX_HEAD_BYTES = 32 * 1024  # request line and headers: browsers send less than 16 KiB
MAX_FRAME_BYTES = 1024 * 1024
KEEP_ALIVE_SECONDS = 75  # longer than the 60 that proxies reuse connections
PING_SECONDS = 20.0  # between pings, and for the answer: a half-open client is gone after 40
SHUTDOWN_SECONDS = 5  # for answers that are being written
LINGER_SECONDS = 1.0  # where there is a successor, for connections that are kept alive
BACKLOG = 1024
HOST = "NAVI_HOST"  # the setting that is named where it cannot be used


class CannotListen(NaviError):
    """The address is taken, or may not be listened on."""


class NotOurAddress(BadInput):
    """The host is no address of this machine."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone: whoever runs the server drains first, and then ends it."""
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    listeners: Sequence[socket.socket] | None = None,
    succeeded: asyncio.Event | None = None,
) -> AsyncGenerator[Address, None]:
    """Serve while the block runs; gives the bound address, and stops with the block.

    Sockets that are still open at the end are closed with 1001, answers that are being written have
    ``SHUTDOWN_SECONDS``.

    Args:
        port: 0 for any free one.
        listeners: bound sockets to serve on, in place of ones of its own; they are closed at the end.
        succeeded: set when another process serves on the same sockets: from then on connections are
            left to that one, and those that are here end after their next answer.

    Raises:
        CannotListen: the address is taken.
        NotOurAddress: it is not this machine's.
    """
    listeners = listeners or await bind(host, port)
    address = Address(host=host, port=listeners[0].getsockname()[1])
    succeeded = succeeded or asyncio.Event()
    server = _Server(
        uvicorn.Config(
            cast(
                "Any", _LastAnswers(app, succeeded)
            ),  # Litestar's and uvicorn's words for ASGI differ in their types only
            http=DeadlineH11Protocol,
            ws=BurstWebSocketProtocol,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            headers=[("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")],
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ws_max_size=MAX_FRAME_BYTES,
            ws_max_queue=32,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,
            backlog=BACKLOG,
        )
    )
    running = asyncio.create_task(server.serve(sockets=list(listeners)), name="http server")
    try:
        while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn has only a flag
            await asyncio.sleep(0.005)
        if running.done():
            await running
        leaving = asyncio.create_task(_leave(server, succeeded), name="leave to a successor")
        try:
            yield address
            await _linger(server, succeeded)
        finally:
            leaving.cancel()
            await asyncio.wait({leaving})
    finally:
        server.should_exit = True
        await running


async def _leave(server: uvicorn.Server, succeeded: asyncio.Event) -> None:
    await succeeded.wait()
    for listening in server.servers:
        listening.close()


async def _linger(server: uvicorn.Server, succeeded: asyncio.Event) -> None:
    """Give the connections that are left a moment for the request after which they end."""
    if not succeeded.is_set():
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while server.server_state.connections:  # noqa: ASYNC110 - uvicorn has only a set
                await asyncio.sleep(0.02)


class _LastAnswers:
    """ASGI middleware: once there is a successor, each answer is the last of its connection.

    A connection that is closed while it is idle may have a request under way.
    """

    def __init__(self, app: ASGIApp, succeeded: asyncio.Event) -> None:
        self._app = app
        self._succeeded = succeeded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            send = self._saying_so(send)
        await self._app(scope, receive, send)

    def _saying_so(self, send: Send) -> Send:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start" and self._succeeded.is_set():
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        return send_last


def is_loopback(host: str) -> bool:
    """Whether only this machine gets to an address that is listened on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"


async def check_address(host: str, port: int) -> None:
    """Look whether one can listen on an address, before anything else is started.

    Raises:
        CannotListen: somebody else does.
        NotOurAddress: it is not this machine's.
    """
    for listener in await bind(host, port):
        listener.close()


async def bind(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """One socket for each address of the host, all on the same port.

    Args:
        shared: whether others of this user may bind the same port, in the same way, so that each
            gets a share of the connections. Nobody is kept from it.

    Raises:
        CannotListen: the address is taken.
        NotOurAddress: it is not this machine's.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise NotOurAddress(HOST, f"there is no address for the host {host!r}") from error
    listeners: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            # With the protocol named: asyncio switches Nagle's delay off only where it reads TCP, and
            # the delay costs 40 ms for every small answer.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            chosen = port or (listeners[0].getsockname()[1] if len(listeners) > 1 else 0)
            listener.bind((address[0], chosen, *address[2:]))
            listener.setblocking(False)
    except OSError as error:
        for listener in listeners:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(
                f"port {port} of {host} is taken; another one is chosen with --port or NAVI_PORT"
            ) from error
        if error.errno == errno.EADDRNOTAVAIL:
            raise NotOurAddress(HOST, f"{host} is not an address of this machine") from error
        raise CannotListen(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listeners
