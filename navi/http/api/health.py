"""Health checks: liveness and readiness."""

from http import HTTPStatus
from typing import Literal

from litestar import Response, get
from msgspec import Struct
from msgspec.structs import replace

from navi.domain.vocabulary.principal import Principal
from navi.http.api.tools_and_profiles import UnavailableAnswer, unavailable_tools
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, Readiness

# What keeps the sandbox away is found and said by navi itself, and who runs many nodes looks for it here.
WHY_IS_FOR_ALL = frozenset({"code_exec"})
SIGN_IN = "who has signed in is told why"

State = Literal["ready", "degraded", "unavailable", "draining"]


class Alive(Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str


class Ready(Struct, frozen=True, kw_only=True):
    """What is there; ``degraded`` takes work, ``unavailable`` and ``draining`` do not.

    Attributes:
        unavailable: tools that are not offered here, and why; they keep the node from nothing else.
            Who has not signed in is told why of ``code_exec`` only.
    """

    status: State
    postgres: bool
    nats: bool
    migrations: bool
    unavailable: tuple[UnavailableAnswer, ...]


@get("/health/live", opt=operation(access="open", answers={200: Alive}))
async def get_live(services: Given) -> Response[bytes]:
    """200 as long as the process answers."""
    return answer(Alive(version=services.version))


@get("/health/ready", opt=operation(access="open", answers={200: Ready, 503: Ready}))
async def get_ready(request: Edge, services: Given) -> Response[bytes]:
    """Whether the node takes work; 503 where it does not."""
    found = await services.check()
    state = state_of(found, draining=services.draining.begun.is_set())
    takes_work = state in ("ready", "degraded")
    return answer(
        Ready(
            status=state,
            postgres=found.postgres,
            nats=found.nats,
            migrations=found.migrations,
            unavailable=_told_to(request.scope["user"], unavailable_tools(services)),
        ),
        status=HTTPStatus.OK if takes_work else HTTPStatus.SERVICE_UNAVAILABLE,
    )


def _told_to(
    principal: Principal | None, unavailable: tuple[UnavailableAnswer, ...]
) -> tuple[UnavailableAnswer, ...]:
    """Without the words of programs and files of others, where nobody known asks."""
    if principal is not None:
        return unavailable
    return tuple(
        one if one.name in WHY_IS_FOR_ALL else replace(one, reason=SIGN_IN) for one in unavailable
    )


def state_of(found: Readiness, *, draining: bool) -> State:
    """The state of the node in one word; without NATS it is only degraded."""
    if draining:
        return "draining"
    if not (found.postgres and found.migrations):
        return "unavailable"
    return "ready" if found.nats else "degraded"
