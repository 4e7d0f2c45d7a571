"""Who may call a route: every route declares it, and one function checks it.

``@get("/x", opt=operation(access="read", ...))`` says what a request needs. Whoever it comes from was
found before routing (``server/authentication``) and stands in the scope; the guard of the application
compares the two. Whose a session is, is asked where it is loaded: ``ReadableSession`` and ``OwnSession``.
"""

from collections.abc import Iterable
from typing import Any, Literal, cast

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers.base import BaseRouteHandler
from litestar.params import SkipValidation
from litestar.types import Scope
from msgspec import Struct

from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import Forbidden, NaviError, NotSignedIn
from navi.domain.vocabulary.events import SessionRead
from navi.domain.vocabulary.ids import SessionId, parse_session_id
from navi.domain.vocabulary.principal import Actor, Principal
from navi.domain.vocabulary.principal import Scope as PrincipalScope
from navi.http.requests.services import Given, PathText, Services

# "open": whoever it is; "login": a person and no token; "admin": the role as well; "admin_read": the
# role, by a token that only reads.
Access = Literal["open", "read", "login", "chat", "admin", "admin_read"]

_KEY = "access"


class Arrival(Struct, frozen=True, kw_only=True):
    """How a request came in, as far as it can be believed.

    Attributes:
        address: of the client; None over a socket without one.
        is_https: whether it left the client encrypted.
        trouble: why it is not known whom it comes from, where looking was not possible.
    """

    address: str | None
    is_https: bool
    trouble: NaviError | None = None


def access(wanted: Access) -> dict[str, Access]:
    """The part of a route's ``opt`` that says who may call it."""
    return {_KEY: wanted}


def access_of(handler: BaseRouteHandler) -> Access:
    """What a route declares.

    Raises:
        KeyError: it declares nothing.
    """
    return cast("Access", handler.opt[_KEY])


def paths_of(handlers: Iterable[BaseRouteHandler], wanted: Access) -> frozenset[str]:
    """The paths of the routes that declare it."""
    return frozenset(
        path for handler in handlers if access_of(handler) == wanted for path in handler.paths
    )


def check_access(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request through that may call the route: the guard of all routes.

    Raises:
        NotSignedIn: there is nobody behind it.
        Forbidden: it lacks the scope or the role.
        Unavailable: nobody could look who is behind it.
    """
    wanted = access_of(handler)
    if wanted == "open":
        return
    found: Principal | None = connection.scope["user"]
    if found is None:
        arrival = cast("dict[str, Arrival]", connection.scope).get("auth")
        raise (arrival and arrival.trouble) or nobody()
    if wanted == "login":
        if found.auth_kind == "token":
            raise Forbidden("this is not for tokens: sign in")
        return
    check_scope(found, "read" if wanted == "admin_read" else wanted)
    if wanted in ("admin", "admin_read") and found.role != "admin":
        raise Forbidden("this is for admins")


def nobody() -> NotSignedIn:
    """The refusal of a request that nobody known is behind."""
    return NotSignedIn("sign in, or send a token as `Authorization: Bearer`")


def check_scope(principal: Principal, wanted: PrincipalScope) -> None:
    """Check that a login or token is good for what is asked.

    Raises:
        Forbidden: it is not.
    """
    if not principal.has(wanted):
        raise Forbidden(f"the token has no scope {wanted!r}")


def principal_of(scope: Scope) -> Principal:
    """Whom a request that was let in comes from."""
    return cast("Principal", scope["user"])


def arrival_of(scope: Scope) -> Arrival:
    """How a request came in."""
    return cast("Arrival", scope["auth"])


def _arrival(scope: Scope) -> Arrival:
    return arrival_of(scope)


def _actor(scope: Scope) -> Actor:
    return Actor(by=principal_of(scope).user_id, address=arrival_of(scope).address)


async def _readable(
    scope: Scope, session_id: PathText, services: Given, principal: "Caller"
) -> Session:
    session = await services.sessions.readable(principal, parse_session_id(session_id))
    await note_reading(services, scope, principal, session)
    return session


async def note_reading(
    services: Services, scope: Scope, principal: Principal, session: Session | None
) -> None:
    """Write down that an admin reads what is somebody else's; the list of all sessions for None."""
    if session is not None and session.owner == principal.user_id:
        return
    read = SessionRead(
        by=principal.user_id,
        address=arrival_of(scope).address,
        session_id=None if session is None else session.id,
        owner=None if session is None else session.owner,
        route=scope["path"],
    )
    await services.accounts.audit_log.write(read)


async def _own(session_id: PathText, services: Given, principal: "Caller") -> SessionId:
    return await services.sessions.own(principal, parse_session_id(session_id))


Caller = NamedDependency[SkipValidation[Principal]]
GivenActor = NamedDependency[SkipValidation[Actor]]
GivenArrival = NamedDependency[SkipValidation[Arrival]]
ReadableSession = NamedDependency[SkipValidation[Session]]
OwnSession = NamedDependency[SkipValidation[SessionId]]

# By the name of the handler's parameter: who asks; the session of the path, to read; its id, to change it.
DEPENDENCIES = {
    "principal": Provide(principal_of, sync_to_thread=False),
    "actor": Provide(_actor, sync_to_thread=False),
    "arrival": Provide(_arrival, sync_to_thread=False),
    "readable": Provide(_readable),
    "own": Provide(_own),
}
