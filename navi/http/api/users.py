"""Routes of users, for admins."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from litestar import Response, delete, get, patch, post
from msgspec import UNSET, Meta, Struct, UnsetType

from navi.domain.accounts.accounts import OwnLimits, User
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import (
    MAX_REQUESTS,
    MAX_SOCKETS,
    MAX_TOKENS,
    MAX_TURNS,
    Limits,
    Role,
)
from navi.http.api.auth import NewPassword, UserName, require_mode
from navi.http.requests.access import GivenActor
from navi.http.requests.bodies import answer, read_json
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText, Services

Turns = Annotated[int, Meta(ge=1, le=MAX_TURNS)]
Requests = Annotated[int, Meta(ge=1, le=MAX_REQUESTS)]
Sockets = Annotated[int, Meta(ge=1, le=MAX_SOCKETS)]
Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]


class UserAnswer(Struct, frozen=True, kw_only=True):
    """A user as admins see them; ``limits`` are those that hold."""

    id: Owner
    name: str
    role: Role
    disabled: bool
    created_at: datetime
    limits: Limits


class UserList(Struct, frozen=True, kw_only=True):
    """Users, by name."""

    users: tuple[UserAnswer, ...]


class NewUser(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /users``."""

    name: UserName
    password: NewPassword
    role: Role = "user"


class LimitsChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one user; what is absent stays. ``tokens`` null: as many as they like."""

    turns: Turns | UnsetType = UNSET
    requests: Requests | UnsetType = UNSET
    sockets: Sockets | UnsetType = UNSET
    tokens: Tokens | UnsetType | None = UNSET


class UserPatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PATCH /users/{id}``; what is absent stays. ``limits`` null: the settings' again."""

    role: Role | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    password: NewPassword | UnsetType = UNSET
    limits: LimitsChange | UnsetType | None = UNSET


@get("/users", opt=operation(access="admin", answers={200: UserList}))
async def get_users(services: Given) -> Response[bytes]:
    """All users."""
    users = await services.accounts.users.list()
    return answer(UserList(users=tuple(_answer(services, user) for user in users)))


@post(
    "/users",
    opt=operation(
        access="admin",
        body=NewUser,
        answers={201: UserAnswer},
        errors=(400, 408, 409, 413, 415),
    ),
)
async def add_user(request: Edge, services: Given, actor: GivenActor) -> Response[bytes]:
    """Add a user."""
    wanted = await read_json(request, NewUser)
    require_mode(services, "accounts", "proxy")
    user = await services.accounts.users.add(
        actor, name=wanted.name, password=wanted.password, role=wanted.role
    )
    response = answer(_answer(services, user), status=HTTPStatus.CREATED)
    response.headers["Location"] = f"/users/{user.id}"
    return response


@patch(
    "/users/{user_id:str}",
    opt=operation(
        access="admin",
        body=UserPatch,
        answers={200: UserAnswer},
        errors=(400, 404, 408, 409, 413, 415),
    ),
)
async def change_user(
    request: Edge, user_id: PathText, services: Given, actor: GivenActor
) -> Response[bytes]:
    """Change a user; who is disabled, or gets another password, is signed out everywhere."""
    wanted = await read_json(request, UserPatch)
    limits = None
    if wanted.limits is not None and wanted.limits is not UNSET:
        given = wanted.limits
        limits = OwnLimits(
            turns=given.turns,
            requests=given.requests,
            sockets=given.sockets,
            tokens=given.tokens,
        )
    user = await services.accounts.users.change(
        actor,
        Owner(user_id),
        role=None if wanted.role is UNSET else wanted.role,
        disabled=None if wanted.disabled is UNSET else wanted.disabled,
        password=None if wanted.password is UNSET else wanted.password,
        limits=limits,
        default_limits=wanted.limits is None,
    )
    return answer(_answer(services, user))


@delete(
    "/users/{user_id:str}",
    status_code=HTTPStatus.NO_CONTENT,
    opt=operation(access="admin", answers={204: None}, errors=(404, 409)),
)
async def remove_user(user_id: PathText, services: Given, actor: GivenActor) -> None:
    """Remove a user with all logins and tokens; their sessions stay in the log."""
    await services.accounts.users.remove(actor, Owner(user_id))


def user_answer(user: User, *, role: Role, default: Limits) -> UserAnswer:
    """A user as it is shown.

    Args:
        role: the one that holds: behind a proxy it need not be the stored one.
        default: the limits of those who were given none.
    """
    return UserAnswer(
        id=user.id,
        name=user.name,
        role=role,
        disabled=user.disabled,
        created_at=user.created_at,
        limits=user.limits_with(default),
    )


def _answer(services: Services, user: User) -> UserAnswer:
    rights = services.accounts.rights
    return user_answer(user, role=rights.role_of(user), default=rights.limits)
