"""Normalise requests: every form in which HTTP lets one be written becomes the one that the routes know.

``HEAD`` is a ``GET`` whose body is not sent (RFC 9110, 9.3.2), an absolute target names its own host
(RFC 9112, 3.2.2), and a request of two lengths is refused before anybody takes one of them for the
truth (6.1).
"""

from collections.abc import Iterable
from http import HTTPStatus
from itertools import chain
from typing import Any, cast
from urllib.parse import unquote

from litestar import Response
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from navi.http.requests.access import access
from navi.http.requests.errors import RequestRefused, send_problem, with_head
from navi.http.requests.head_only import HEAD_ONLY

_SCHEMES = (b"http://", b"https://")


class RequestForm:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on in its plain form, or answer it where it has none."""
        if scope["type"] == "websocket":
            await self._app(scope, receive, _as_problem(scope, send))
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = scope
        if _has_two_lengths(request):
            refused = RequestRefused(
                HTTPStatus.BAD_REQUEST,
                "a request has a Content-Length or a Transfer-Encoding, not both",
                headers={"Connection": "close"},
            )
            await send_problem(scope, send, refused)
            return
        raw_path = request.get("raw_path", b"")
        if raw_path.lower().startswith(_SCHEMES):
            request = _in_origin_form(request, raw_path)
        if request["method"] == "HEAD":
            # The server sends no body to a HEAD, whatever the application gives it.
            request = cast("HTTPScope", {**request, "method": "GET", HEAD_ONLY: True})
        await self._app(request, receive, send)


class ServerOptions:
    """ASGI middleware that answers ``OPTIONS *``: what the server takes in general (RFC 9110, 9.3.7)."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRouteHandler]) -> None:
        self._app = app
        self._allow = with_head({*chain(*_methods(routes).values()), "OPTIONS"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on a request that has a path."""
        if scope["type"] != "http" or scope["method"] != "OPTIONS" or scope["path"] != "*":
            await self._app(scope, receive, send)
            return
        headers = [(b"allow", self._allow.encode())]
        status = HTTPStatus.NO_CONTENT
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def options_routes(routes: Iterable[BaseRouteHandler]) -> list[HTTPRouteHandler]:
    """A handler of ``OPTIONS`` for every path, which says all of its methods.

    Litestar's own says those of the first handler of a path only.
    """
    found = _methods(routes)
    return [_options(path, with_head({*methods, "OPTIONS"})) for path, methods in found.items()]


def _methods(routes: Iterable[BaseRouteHandler]) -> dict[str, set[str]]:
    methods: dict[str, set[str]] = {}
    for route in routes:
        if isinstance(route, HTTPRouteHandler):
            for path in route.paths:
                methods.setdefault(path, set()).update(map(str, route.http_methods))
    return methods


def _options(path: str, allow: str) -> HTTPRouteHandler:
    def options() -> Response[None]:
        return Response(None, status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allow})

    return HTTPRouteHandler(path, http_method="OPTIONS", sync_to_thread=False, opt=access("open"))(
        options
    )


def _has_two_lengths(scope: HTTPScope) -> bool:
    names = [name for name, _ in scope["headers"]]
    return b"content-length" in names and b"transfer-encoding" in names


def _in_origin_form(scope: HTTPScope, target: bytes) -> HTTPScope:
    """The request as if its target were a path, and its host the one that the target names."""
    authority, slash, path = target.partition(b"://")[2].partition(b"/")
    raw_path = slash + path or b"/"
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    origin_form: dict[str, Any] = {
        **scope,
        "raw_path": raw_path,
        "path": unquote(raw_path.decode("ascii")),
        "headers": [(b"host", authority), *others],
    }
    return cast("HTTPScope", origin_form)


def _as_problem(scope: Scope, send: Send) -> Send:
    """Turn the close of a WebSocket that was not accepted into an answer that says why."""
    accepted = False

    async def sending(message: Message) -> None:
        nonlocal accepted
        if message["type"] == "websocket.close" and not accepted:
            status = HTTPStatus.NOT_FOUND
            detail = "there is no such route for a WebSocket"
            await send_problem(scope, send, RequestRefused(status, detail))
            return
        accepted = accepted or message["type"] == "websocket.accept"
        await send(message)

    return sending
