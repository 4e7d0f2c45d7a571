"""Refuse what is beyond a user's limits before it costs anything."""

from collections.abc import Collection
from typing import cast

from litestar.types import ASGIApp, Receive, Scope, Send

from navi.domain.vocabulary.principal import Principal
from navi.http.requests.errors import Limited, send_problem
from navi.http.requests.rates import Rates


class RequestLimits:
    """ASGI middleware: answers 429 to a request or a handshake beyond the limits of who makes it."""

    def __init__(self, app: ASGIApp, rates: Rates, *, free: Collection[str]) -> None:
        """Nothing is counted yet.

        Args:
            free: paths that do not count.
        """
        self._app = app
        self._rates = rates
        self._free = frozenset(free)
        # A path that ends in names, such as a file of the page, is free whatever these are.
        self._free_below = tuple(path[: path.index("{")] for path in free if "{" in path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is within the limits."""
        principal = cast("Principal | None", scope["user"])
        path = scope["path"]
        if principal is None or path in self._free or path.startswith(self._free_below):
            await self._app(scope, receive, send)
            return
        try:
            self._rates.count_request(principal)
            if scope["type"] != "websocket":
                await self._app(scope, receive, send)
                return
            with self._rates.socket(principal):
                await self._app(scope, receive, send)
        except Limited as error:
            await send_problem(scope, send, error)
