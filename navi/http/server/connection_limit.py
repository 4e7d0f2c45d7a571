"""Limit open WebSockets by the process's file descriptors."""

import resource
from contextlib import suppress
from http import HTTPStatus

from litestar.types import ASGIApp, Receive, Scope, Send

from navi.http.requests.errors import RETRY_SECONDS, RequestRefused, send_problem
from navi.ports.metrics import SocketMetrics

MAX_SOCKETS = 10_000
SPARE_FILES = 200  # for Postgres, NATS, model servers, tools, requests
LEAST_SOCKETS = 16
WANTED_FILES = 65_536


def raise_file_limit() -> None:
    """Raise the limit of file descriptors as far as allowed: 1,024, a login's default, is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class ConnectionLimit:
    """ASGI middleware: refuses a WebSocket before the upgrade where no more can be held."""

    def __init__(self, app: ASGIApp, metrics: SocketMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests; answer 503 to a WebSocket above the limit."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        if self._open >= _most_sockets():
            refused = RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"this node holds {self._open} sockets and can hold no more; try again, or another node",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
            await send_problem(scope, send, refused)
            return
        self._hold(+1)
        try:
            await self._app(scope, receive, send)
        finally:
            self._hold(-1)

    def _hold(self, more: int) -> None:
        self._open += more
        self._metrics.hold_sockets(self._open)


def _most_sockets() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_SOCKETS
    return min(MAX_SOCKETS, max(LEAST_SOCKETS, files - SPARE_FILES))
