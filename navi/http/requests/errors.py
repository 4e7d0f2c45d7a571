"""Map errors to RFC 9457 problems and HTTP status codes."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

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
        headers = {"Retry-After": str(retry_after)}
        super().__init__(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)
        self.retry_after = retry_after


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
        case BadInput(field=field):
            return _problem(HTTPStatus.BAD_REQUEST, "bad-input", str(error), field=field)
        case RequestRefused(status=status, slug=slug, headers=headers):
            return _problem(status, slug, str(error), headers=headers)
        case NotSignedIn():
            return _problem(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                str(error),
                headers={"WWW-Authenticate": "Bearer"},
            )
        case Forbidden():
            return _problem(HTTPStatus.FORBIDDEN, "forbidden", str(error))
        case TooManyTries(retry_after=seconds):
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-many-tries",
                str(error),
                headers={"Retry-After": str(seconds)},
            )
        case Erased():
            return _problem(HTTPStatus.GONE, "erased", str(error))
        case NotFound():
            return _problem(HTTPStatus.NOT_FOUND, "not-found", str(error))
        case MessageIdReused():
            return _problem(
                HTTPStatus.CONFLICT, "message-id-reused", str(error), field="message_id"
            )
        case AlreadyDecided():
            return _problem(HTTPStatus.CONFLICT, "already-decided", str(error))
        case TooManyWaiting():
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS, "too-many-waiting", str(error), headers=_later()
            )
        case TooManyUploads():
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS, "too-many-uploads", str(error), headers=_later()
            )
        case UploadsFull():
            return _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "uploads-full", str(error))
        case OutOfBudget(retry_after=int(seconds)):
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "out-of-budget",
                str(error),
                headers={"Retry-After": str(seconds)},
            )
        case OutOfBudget():
            return _problem(HTTPStatus.CONFLICT, "out-of-budget", str(error))
        case RuleBroken():
            return _problem(HTTPStatus.CONFLICT, "rule-broken", str(error))
        case EventTooLarge():
            return _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "event-too-large", str(error))
        case DiskFull():
            return _problem(HTTPStatus.INSUFFICIENT_STORAGE, "disk-full", str(error))
        case LogDamaged():  # it says where, and of what was written there only the type
            return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "log-damaged", str(error))
        case Unavailable():
            # The error's own words may name a host or a user of the database.
            return _problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "unavailable",
                "a server that navi needs does not answer; try again in a moment",
                headers=_later(),
            )
        case NotFoundException():
            return _problem(HTTPStatus.NOT_FOUND, "no-such-route", "there is no such route")
        case MethodNotAllowedException():
            return _not_allowed(_methods_in(error.headers))
        case HTTPException(status_code=code) if code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return _problem(HTTPStatus(code), _slug(HTTPStatus(code)), error.detail)
        case _:
            return _problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "internal",
                "something went wrong inside navi; the log of the server says what",
            )


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


def _later() -> dict[str, str]:
    return {"Retry-After": str(RETRY_SECONDS)}


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
