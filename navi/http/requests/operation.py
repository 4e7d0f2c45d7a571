"""What OpenAPI says of a route, declared beside it: ``@get("/x", opt=operation(answers={200: X}))``."""

from collections.abc import Mapping
from typing import Any

from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from navi.domain.vocabulary.events import JsonObject
from navi.http.requests.access import Access
from navi.http.requests.access import access as declared
from navi.http.requests.validation import MAX_LIMIT, MAX_SEQ

Parameter = tuple[str, JsonObject, str]  # name, schema, what it does

_KEY = "operation"

SEQ: JsonObject = {"type": "integer", "minimum": 0, "maximum": MAX_SEQ}
LIMIT: Parameter = (
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    "all without it",
)
AT: Parameter = ("at", SEQ, "read the past: the fold of the events 1 to `at`")
BEFORE: Parameter = (
    "before",
    SEQ,
    "only what has a smaller seq; `limit` then counts from the end, so that the tail comes first "
    f"with `before={MAX_SEQ}`",
)
AFTER: Parameter = ("after", SEQ, "only what has a larger seq")

IF_NONE_MATCH: Parameter = (
    "If-None-Match",
    {"type": "string"},
    "the `ETag` of an answer: 304 without a body where nothing has changed since",
)

# Of an answer that is a stream of server-sent events.
EVENT_STREAM: JsonObject = {"text/event-stream": {"schema": {"type": "string"}}}


class Operation(Struct, frozen=True, kw_only=True):
    """A method of a route; its summary is the first line of the handler's docstring.

    Attributes:
        answers: the class of the body by status; None for no body or one that is a document.
        body_content: of a body that is not JSON, by media type.
        answer_content: of a 200 that is not JSON, likewise.
        headers: that are read, besides those of every request.
        in_path: schemas of what stands in the path, where its name does not say them.
        errors: statuses of problems besides 403, 500 and 503, which every route has.
    """

    answers: dict[int, Any]
    body: Any = None
    body_content: JsonObject | None = None
    answer_content: JsonObject | None = None
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    in_path: dict[str, JsonObject] = {}
    errors: tuple[int, ...] = ()


def operation(
    *,
    access: Access,
    answers: dict[int, Any],
    body: Any = None,
    body_content: JsonObject | None = None,
    answer_content: JsonObject | None = None,
    query: tuple[Parameter, ...] = (),
    headers: tuple[Parameter, ...] = (),
    in_path: dict[str, JsonObject] | None = None,
    errors: tuple[int, ...] = (),
) -> dict[str, Any]:
    """The ``opt`` of a route handler: who may call it, and the fields of ``Operation``."""
    described = Operation(
        answers=answers,
        body=body,
        body_content=body_content,
        answer_content=answer_content,
        query=query,
        headers=headers,
        in_path=in_path or {},
        errors=errors,
    )
    return {_KEY: described, **declared(access)}


def operation_of(handler: HTTPRouteHandler) -> Operation:
    """What a handler declares.

    Raises:
        KeyError: it declares nothing.
    """
    options: Mapping[str, Any] = handler.opt
    found = options[_KEY]
    assert isinstance(found, Operation)  # noqa: S101 - what `operation` puts there
    return found
