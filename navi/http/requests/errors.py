"""Map errors to RFC 9457 problems and HTTP status codes."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal

import msgspec
import structlog
from litestar import MediaType, Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.types import Scope, Send
from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.errors import (
    AlreadyDecided,
    BadInput,
    DiskFull,
    Erased,
    EventTooLarge,
    Forbidden,
    LogDamaged,
    MessageIdReused,
    NaviError,
    NotFound,
    NotSignedIn,
    OutOfBudget,
    RuleBroken,
    TooManyTries,
    TooManyUploads,
    TooManyWaiting,
    Unavailable,
    UploadsFull,
)
from navi.log_error import log_error

log = structlog.get_logger()

PROBLEM_JSON = "application/problem+json"
# In a request's scope: by the beginning of a path, the form of its errors where they are no problems.
ERROR_FORMS = "navi.error_forms"
RETRY_SECONDS = 2  # Postgres restarts in under a second; a queue of messages moves in a few

# Of a frame that is refused: a WebSocket has no statuses.
ErrorCode = Literal[
    "bad_frame",
    "bad_input",
    "message_id_reused",
    "too_many_waiting",
    "limited",
    "out_of_budget",
    "already_decided",
    "too_large",
    "not_found",
    "forbidden",
    "unavailable",
    "refused",
]

Edge = Request[Any, Any, State]  # nobody is authenticated, so users and tokens have no type


class RequestRefused(NaviError):
    """A request that the edge refuses before it reaches the application.

    Args:
        slug: by which programs tell it from others of its status.
    """

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        slug: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug or _slug(status)
        self.headers = dict(headers or {})


class Limited(RequestRefused):
    """More than one user may ask for.

    Attributes:
        retry_after: seconds until it is worth another try.
    """

    def __init__(self, detail: str, *, retry_after: int) -> None:
        super().__init__(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=_again_in(retry_after))
        self.retry_after = retry_after


def _again_in(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}


class Told(Struct, frozen=True):
    """How an error is told: over HTTP, and by ``code`` in a frame of a WebSocket.

    Attributes:
        slug: by which programs tell it from others of its status.
        detail: instead of the error's own words.
        field: the part of every such request that is to blame, where it is always the same.
    """

    status: HTTPStatus
    slug: str
    code: ErrorCode = "refused"
    detail: str | None = None
    field: str | UnsetType = UNSET
    headers: Mapping[str, str] = {}


_SOON = _again_in(RETRY_SECONDS)

# A class without a row is told as the one it is derived from.
PROBLEMS: Mapping[type[Exception], Told] = {
    NaviError: Told(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        detail="something went wrong inside navi; the log of the server says what",
    ),
    BadInput: Told(HTTPStatus.BAD_REQUEST, "bad-input", "bad_input"),
    NotFound: Told(HTTPStatus.NOT_FOUND, "not-found", "not_found"),
    Erased: Told(HTTPStatus.GONE, "erased", "not_found"),
    RuleBroken: Told(HTTPStatus.CONFLICT, "rule-broken"),
    AlreadyDecided: Told(HTTPStatus.CONFLICT, "already-decided", "already_decided"),
    MessageIdReused: Told(
        HTTPStatus.CONFLICT, "message-id-reused", "message_id_reused", field="message_id"
    ),
    TooManyWaiting: Told(
        HTTPStatus.TOO_MANY_REQUESTS, "too-many-waiting", "too_many_waiting", headers=_SOON
    ),
    TooManyUploads: Told(HTTPStatus.TOO_MANY_REQUESTS, "too-many-uploads", headers=_SOON),
    UploadsFull: Told(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "uploads-full"),
    OutOfBudget: Told(HTTPStatus.CONFLICT, "out-of-budget", "out_of_budget"),
    NotSignedIn: Told(
        HTTPStatus.UNAUTHORIZED, "unauthorized", headers={"WWW-Authenticate": "Bearer"}
    ),
    Forbidden: Told(HTTPStatus.FORBIDDEN, "forbidden", "forbidden"),
    TooManyTries: Told(HTTPStatus.TOO_MANY_REQUESTS, "too-many-tries"),
    EventTooLarge: Told(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "event-too-large", "too_large"),
    DiskFull: Told(HTTPStatus.INSUFFICIENT_STORAGE, "disk-full"),
    # It says where, and of what was written there only the type.
    LogDamaged: Told(HTTPStatus.INTERNAL_SERVER_ERROR, "log-damaged"),
    Unavailable: Told(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "unavailable",
        # The error's own words may name a host or a user of the database.
        detail="a server that navi needs does not answer; try again in a moment",
        headers=_SOON,
    ),
}
_OUT_OF_BUDGET_TODAY = Told(HTTPStatus.TOO_MANY_REQUESTS, "out-of-budget", "limited")


class Problem(Struct, frozen=True, kw_only=True):
    """The body of an error answer.

    Attributes:
        field: the part of the request that is to blame, where one is.
    """

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET


# What is sent for a problem instead of it, as JSON.
ErrorForm = Callable[[Problem], object]


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """A problem and the headers that go with it."""

    problem: Problem
    headers: dict[str, str] = {}


def answer_of(error: Exception) -> ErrorAnswer:
    """The problem for an error; an unexpected one tells nothing but that it happened."""
    match error:
        case RequestRefused(status=status, slug=slug, headers=headers):
            return _problem(status, slug, str(error), headers=headers)
        case NaviError():
            told = told_as(error)
            seconds = error.retry_after if isinstance(error, TooManyTries | OutOfBudget) else None
            return _problem(
                told.status,
                told.slug,
                told.detail or str(error),
                field=error.field if isinstance(error, BadInput) else told.field,
                headers=told.headers if seconds is None else _again_in(seconds),
            )
        case NotFoundException():
            return _problem(HTTPStatus.NOT_FOUND, "no-such-route", "there is no such route")
        case MethodNotAllowedException():
            return _not_allowed(_methods_in(error.headers))
        case HTTPException(status_code=code) if code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _problem(HTTPStatus(code), _slug(HTTPStatus(code)), error.detail)
        case _:
            return answer_of(NaviError())


def told_as(error: NaviError) -> Told:
    """How an error is told: as the narrowest of its classes that has a row."""
    if isinstance(error, OutOfBudget) and error.retry_after is not None:
        return _OUT_OF_BUDGET_TODAY
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def with_head(methods: Iterable[str]) -> str:
    """The value of ``Allow``: the methods in order, and ``HEAD`` wherever there is a ``GET``."""
    known = set(methods)
    return ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))


def _not_allowed(methods: set[str]) -> ErrorAnswer:
    if not methods:
        return _problem(
            HTTPStatus.UPGRADE_REQUIRED,
            "upgrade-required",
            "the route is a WebSocket's",
            headers={"Upgrade": "websocket", "Connection": "Upgrade"},
        )
    return _problem(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "the route does not take this method",
        headers={"Allow": with_head(methods)},
    )


def _methods_in(headers: Mapping[str, str] | None) -> set[str]:
    allow = {name.lower(): value for name, value in (headers or {}).items()}.get("allow", "")
    # Litestar calls the place of a WebSocket a method of that name.
    return {name.strip() for name in allow.split(",")} - {"", "websocket"}


def _problem(
    status: HTTPStatus,
    slug: str,
    detail: str,
    *,
    field: str | UnsetType = UNSET,
    headers: Mapping[str, str] | None = None,
) -> ErrorAnswer:
    problem = Problem(
        type=f"urn:navi:problem:{slug}",
        title=status.phrase,
        status=status,
        detail=detail,
        field=field,
    )
    return ErrorAnswer(problem=problem, headers=dict(headers or {}))


def _slug(status: HTTPStatus) -> str:
    return status.phrase.lower().replace(" ", "-").replace("'", "")


def _answer(request: Edge, error: Exception) -> Response[bytes]:
    answer = answer_of(error)
    if answer.problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log_error(log, "request_broke", error, method=request.method, path=request.url.path)
    body, media_type = _encoded(answer.problem, request.scope)
    return Response(
        body,
        status_code=answer.problem.status,
        media_type=media_type,
        headers=answer.headers,
    )


def _encoded(problem: Problem, scope: Mapping[str, Any]) -> tuple[bytes, str]:
    """The body of an error answer and its media type."""
    forms: Mapping[str, ErrorForm] = scope.get(ERROR_FORMS, {})
    for prefix, form in forms.items():
        if scope["path"].startswith(prefix):
            return msgspec.json.encode(form(problem)), MediaType.JSON
    return msgspec.json.encode(problem), PROBLEM_JSON


EXCEPTION_HANDLERS: dict[int | type[Exception], Callable[[Edge, Exception], Response[Any]]] = {
    NaviError: _answer,
    HTTPException: _answer,
    Exception: _answer,
}


async def log_broken_socket(error: Exception, scope: Scope) -> None:
    """Log the exception that ended a WebSocket: Litestar closes it (4500), without a handler."""
    if scope["type"] == "websocket" and not isinstance(error, HTTPException):
        log_error(log, "socket_broke", error, path=scope["path"])


async def send_problem(scope: Scope, send: Send, error: NaviError) -> None:
    """Send a problem outside of routes: to an HTTP request, or a WebSocket before it is accepted."""
    answer = answer_of(error)
    prefix = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    body, media_type = _encoded(answer.problem, scope)
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    start: Any = {
        "type": f"{prefix}.start",
        "status": answer.problem.status,
        "headers": headers,
    }
    end: Any = {"type": f"{prefix}.body", "body": body, "more_body": False}
    await send(start)
    await send(end)
