"""Who may call a route: every route declares it, and one function checks it.

``@get("/x", opt=operation(access="read", ...))`` says what a request needs. Whoever it comes from was
found before routing (``server/authentication``) and stands in the scope; the guard of the application
compares the two. Whose a session is, is asked where it is loaded: ``ReadableSession`` and ``OwnSession``.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Literal, cast

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers.base import BaseRouteHandler
from litestar.params import SkipValidation
from litestar.types import Scope

from navi.domain.ids import SessionId
from navi.domain.principal import Principal
from navi.domain.principal import Scope as PrincipalScope
from navi.domain.session import Session
from navi.http.requests.errors import RequestRefused
from navi.http.requests.services import Given, PathText
from navi.http.requests.validation import session_of

# "open": whoever it is; "admin": the role as well; "admin_read": the role, by a token that only reads.
Access = Literal["open", "read", "chat", "admin", "admin_read"]

_KEY = "access"


def access(wanted: Access) -> dict[str, Access]:
    """The part of a route's ``opt`` that says who may call it."""
    return {_KEY: wanted}


def access_of(handler: BaseRouteHandler) -> Access:
    """What a route declares.

    Raises:
        KeyError: it declares nothing.
    """
    return cast("Access", handler.opt[_KEY])


def open_paths(handlers: Iterable[BaseRouteHandler]) -> frozenset[str]:
    """The paths that are open to all."""
    return frozenset(
        path for handler in handlers if access_of(handler) == "open" for path in handler.paths
    )


def check_access(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request through that may call the route: the guard of all routes.

    Raises:
        RequestRefused: 401 without anybody behind it, 403 without the scope or the role.
    """
    wanted = access_of(handler)
    if wanted == "open":
        return
    principal: Principal | None = connection.scope["user"]
    if principal is None:
        raise RequestRefused(
            HTTPStatus.UNAUTHORIZED,
            "sign in, or send a token as `Authorization: Bearer`",
            headers={"WWW-Authenticate": "Bearer"},
        )
    check_scope(principal, "read" if wanted == "admin_read" else wanted)
    if wanted in ("admin", "admin_read") and principal.role != "admin":
        raise RequestRefused(HTTPStatus.FORBIDDEN, "this is for admins")


def check_scope(principal: Principal, wanted: PrincipalScope) -> None:
    """Check that a login or token is good for what is asked.

    Raises:
        RequestRefused: 403, it is not.
    """
    if not principal.has(wanted):
        raise RequestRefused(HTTPStatus.FORBIDDEN, f"the token has no scope {wanted!r}")


def _principal(scope: Scope) -> Principal:
    return cast("Principal", scope["user"])


async def _readable(session_id: PathText, services: Given, principal: "Caller") -> Session:
    return await services.sessions.readable(principal, session_of(session_id))


async def _own(session_id: PathText, services: Given, principal: "Caller") -> SessionId:
    return await services.sessions.own(principal, session_of(session_id))


Caller = NamedDependency[SkipValidation[Principal]]
ReadableSession = NamedDependency[SkipValidation[Session]]
OwnSession = NamedDependency[SkipValidation[SessionId]]

# By the name of the handler's parameter: who asks; the session of the path, to read; its id, to change it.
DEPENDENCIES = {
    "principal": Provide(_principal, sync_to_thread=False),
    "readable": Provide(_readable),
    "own": Provide(_own),
}
