"""Routes of one's own account: set up, sign in and out, password, tokens."""

from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Literal

from litestar import Response, delete, get, post
from litestar.response.base import ASGIResponse
from msgspec import Meta, Struct

from navi.application.accounts.sign_in import NewLogin
from navi.application.accounts.user_rights import AuthMode
from navi.domain.accounts.accounts import MAX_NAME, MAX_PASSWORD, MIN_PASSWORD, Credential
from navi.domain.vocabulary.errors import BadInput, Forbidden, RuleBroken
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import AuthKind, Limits, Role, Scope
from navi.http.requests.access import Arrival, Caller, GivenActor, GivenArrival
from navi.http.requests.bodies import NO_STORE, answer, read_body, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.login_cookie import login_cookies, set_cookie, take_back
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText, Services
from navi.http.requests.validation import NameText, check_session_name

UserName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME})]
OldPassword = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_PASSWORD})]
NewPassword = Annotated[
    str, Meta(extra_json_schema={"minLength": MIN_PASSWORD, "maxLength": MAX_PASSWORD})
]


class SetUp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /auth/setup``; ``token`` is what stands behind ``#token=`` in the printed link."""

    token: Annotated[str, Meta(extra_json_schema={"minLength": 1})]
    name: UserName
    password: NewPassword


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /auth/login``."""

    name: UserName
    password: OldPassword


class PasswordChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /auth/password``."""

    old: OldPassword
    new: NewPassword


class Me(Struct, frozen=True, kw_only=True):
    """Who asks.

    Attributes:
        auth_kind: how navi knows; only who has a ``login`` signs out.
    """

    id: Owner
    name: str
    role: Role
    limits: Limits
    auth_kind: AuthKind


class TokenAnswer(Struct, frozen=True, kw_only=True):
    """A token without its secret, or a login to NATS; ``used_at`` of a token is to the minute."""

    id: str
    kind: Literal["token", "nats"]
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


class TokenList(Struct, frozen=True, kw_only=True):
    """Tokens, oldest first."""

    tokens: tuple[TokenAnswer, ...]


class TokenBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /auth/tokens``."""

    name: NameText
    scopes: tuple[Scope, ...]
    expires_at: datetime | None = None


class MadeToken(Struct, frozen=True, kw_only=True):
    """A new token, shown this once."""

    id: str
    token: str


@post(
    "/auth/setup",
    opt=operation(
        access="open", body=SetUp, answers={204: None}, errors=(400, 401, 408, 409, 413, 415)
    ),
)
async def set_up(request: Edge, services: Given, arrival: GivenArrival) -> ASGIResponse:
    """Make the first user, an admin, and sign them in."""
    wanted = await read_json(request, SetUp)
    require_mode(services, "accounts")
    login = await services.accounts.sign_in.set_up(
        wanted.token, wanted.name, wanted.password, arrival.address
    )
    return _signed_in(request, login, arrival)


@post(
    "/auth/login",
    opt=operation(
        access="open", body=Login, answers={204: None}, errors=(400, 401, 408, 409, 413, 415, 429)
    ),
)
async def login(request: Edge, services: Given, arrival: GivenArrival) -> ASGIResponse:
    """Sign in; the cookie is the login."""
    wanted = await read_json(request, Login)
    require_mode(services, "accounts")
    signed_in = await services.accounts.sign_in.login(wanted.name, wanted.password, arrival.address)
    return _signed_in(request, signed_in, arrival)


@post(
    "/auth/logout",
    opt=operation(access="login", answers={204: None}, errors=(408, 409, 413)),
)
async def logout(
    request: Edge, services: Given, principal: Caller, arrival: GivenArrival
) -> ASGIResponse:
    """End the login that the request came with; where it came with several, each."""
    await read_body(request)
    accounts = services.accounts
    await accounts.sign_in.logout(principal, arrival.address)
    for secret in chain(*login_cookies(request.scope)):
        other = await accounts.find_principal.by_secret(secret, "login")
        if other is not None:
            await accounts.sign_in.logout(other, arrival.address)
    return _no_content(*take_back())


@get("/auth/me", opt=operation(access="read", answers={200: Me}))
async def get_me(principal: Caller) -> Response[bytes]:
    """Who asks."""
    return answer(
        Me(
            id=principal.user_id,
            name=principal.name,
            role=principal.role,
            limits=principal.limits,
            auth_kind=principal.auth_kind,
        )
    )


@post(
    "/auth/password",
    status_code=HTTPStatus.NO_CONTENT,
    opt=operation(
        access="login",
        body=PasswordChange,
        answers={204: None},
        errors=(400, 408, 409, 413, 415, 429),
    ),
)
async def change_password(
    request: Edge, services: Given, principal: Caller, arrival: GivenArrival
) -> None:
    """Change one's password; all other logins end."""
    wanted = await read_json(request, PasswordChange)
    await services.accounts.sign_in.change_password(
        principal, wanted.old, wanted.new, arrival.address
    )


@get("/auth/tokens", opt=operation(access="read", answers={200: TokenList}))
async def get_tokens(services: Given, principal: Caller) -> Response[bytes]:
    """One's own tokens, without their secrets."""
    found = await services.accounts.tokens.list(principal.user_id)
    return answer(TokenList(tokens=tuple(map(token_answer, found))))


@post(
    "/auth/tokens",
    opt=operation(
        access="login",
        body=TokenBody,
        answers={201: MadeToken},
        errors=(400, 408, 409, 413, 415),
    ),
)
async def add_token(
    request: Edge, services: Given, principal: Caller, actor: GivenActor
) -> Response[bytes]:
    """Make a token; the only time that it is shown."""
    wanted = await read_json(request, TokenBody)
    require_mode(services, "accounts", "proxy")
    check_session_name("name", wanted.name)
    made = await services.accounts.tokens.add(
        actor,
        principal.user_id,
        role=principal.role,
        name=wanted.name,
        scopes=wanted.scopes,
        expires_at=None if wanted.expires_at is None else _in_utc("expires_at", wanted.expires_at),
    )
    return answer(MadeToken(id=made.id, token=made.token), status=HTTPStatus.CREATED)


@delete(
    "/auth/tokens/{token_id:str}",
    status_code=HTTPStatus.NO_CONTENT,
    opt=operation(access="read", answers={204: None}, errors=(404,)),
)
async def revoke_token(
    token_id: PathText, services: Given, principal: Caller, actor: GivenActor
) -> None:
    """Revoke one of one's own tokens."""
    if principal.auth_kind == "token" and principal.auth_id != token_id:
        raise Forbidden("a token revokes itself only")
    await services.accounts.tokens.revoke(actor, principal.user_id, token_id)


def token_answer(token: Credential) -> TokenAnswer:
    """A token as it is shown."""
    return TokenAnswer(
        id=token.id,
        kind="nats" if token.kind == "nats" else "token",
        name=token.name,
        scopes=token.scopes,
        created_at=token.created_at,
        expires_at=token.expires_at,
        used_at=token.used_at,
    )


def require_mode(services: Services, *modes: AuthMode) -> None:
    """Check how people are told apart here.

    Raises:
        RuleBroken: not so.
    """
    mode = services.accounts.rights.mode
    if mode not in modes:
        raise RuleBroken(f"with NAVI_AUTH={mode} there is no such thing here")


def _in_utc(field: str, at: datetime) -> datetime:
    if at.tzinfo is None:
        raise BadInput(field, "has no time zone")
    try:
        return at.astimezone(UTC)
    except OverflowError:  # the last evening of the year 9999 far in the west
        raise BadInput(field, "is outside of the calendar in UTC") from None


def _signed_in(request: Edge, login: NewLogin, arrival: Arrival) -> ASGIResponse:
    return _no_content(set_cookie(login.secret, is_https=_is_https(request, arrival)))


def _no_content(*cookies: str) -> ASGIResponse:
    # Not a `Response`, which has each header once.
    headers = [("Cache-Control", NO_STORE), *(("Set-Cookie", cookie) for cookie in cookies)]
    return ASGIResponse(status_code=HTTPStatus.NO_CONTENT, headers=headers)


def _is_https(request: Edge, arrival: Arrival) -> bool:
    # Behind a proxy that navi does not know the page's own address tells; it was compared with Host.
    return arrival.is_https or request.headers.get("origin", "").startswith("https://")
