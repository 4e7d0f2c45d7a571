"""Find out whom a request comes from, before routing."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec.structs import replace

from navi.domain.principal import LOCAL_PRINCIPAL, Limits, Principal

Identify = Callable[[Scope], Awaitable[Principal | None]]


async def everybody_is_local(_scope: Scope) -> Principal | None:
    """Without accounts: one person."""
    return LOCAL_PRINCIPAL


def everybody_is_local_within(limits: Limits) -> Identify:
    """The same, with limits that were set."""
    principal = replace(LOCAL_PRINCIPAL, limits=limits)

    async def identify(_scope: Scope) -> Principal | None:
        return principal

    return identify


class Authentication:
    """ASGI middleware that puts the ``Principal`` of a request, or None, into its scope as ``user``."""

    def __init__(self, app: ASGIApp, identify: Identify) -> None:
        self._app = app
        self._identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with whom it comes from."""
        cast("dict[str, Any]", scope)["user"] = await self._identify(scope)
        await self._app(scope, receive, send)
