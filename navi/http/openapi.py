"""OpenAPI 3.1 of the HTTP routes; ``tests/http/test_schema.py`` holds it against the routes."""

from typing import Any

import msgspec
from msgspec import Struct

from navi.application.await_turn import TurnOutcome
from navi.application.manage_context import Compressed
from navi.application.manage_sessions import Receipt
from navi.application.render_call import RenderedCall
from navi.domain.events import JsonObject
from navi.http.contexts import PlanningAnswer, Undo
from navi.http.errors import PROBLEM_JSON, Problem
from navi.http.event_schema import envelope_schema, event_definitions
from navi.http.files import FileList
from navi.http.forks import Fork, ForkAnswer
from navi.http.health import Alive, Ready
from navi.http.limits import MAX_LIMIT, MAX_SEQ
from navi.http.memories import MemoryAnswer, MemoryList, MemoryText
from navi.http.messages import ContextAnswer, MessageList, NewMessage, TodoAnswer
from navi.http.sessions import NewSession, SessionAnswer, SessionChange, SessionList, StopAnswer
from navi.http.tools_and_profiles import ProfileList, ToolList

SCHEMAS = "#/components/schemas/{name}"

_SEQ = {"type": "integer", "minimum": 0, "maximum": MAX_SEQ}
_LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}, "all without it")
_AT = ("at", _SEQ, "read the past: the fold of the events 1 to `at`")
_AFTER = ("after", _SEQ, "only what has a larger seq")

_BYTES = {"type": "string", "contentMediaType": "application/octet-stream"}
_FILES = {"type": "object", "minProperties": 1, "additionalProperties": _BYTES}
_FORM = {"multipart/form-data": {"schema": _FILES}}
_ANY_BYTES: JsonObject = {"*/*": {}}

Parameter = tuple[str, JsonObject, str]


class Operation(Struct, frozen=True, kw_only=True):
    """A method of a route.

    Attributes:
        answers: the class of the body by status; None for no body or one that is a document.
        body_content: of a body that is not JSON, by media type.
        answer_content: of a 200 that is not JSON, likewise.
        errors: statuses of problems besides 403, 500 and 503, which every route has.
    """

    does: str
    answers: dict[int, type | None]
    body: type | None = None
    body_content: JsonObject | None = None
    answer_content: JsonObject | None = None
    query: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()


class EventList(Struct, frozen=True, kw_only=True):
    """Envelopes as they stand in the log."""

    seq: int
    events: tuple[JsonObject, ...]


OPERATIONS: dict[str, dict[str, Operation]] = {
    "/": {"get": Operation(does="what this is", answers={200: None})},
    "/sessions": {
        "post": Operation(
            does="create a session",
            body=NewSession,
            answers={201: SessionAnswer},
            errors=(400, 408, 413, 415),
        ),
        "get": Operation(
            does="sessions, pinned ones first, then the latest active",
            query=(_LIMIT, ("after", {"type": "string"}, "`next` of the page before")),
            answers={200: SessionList},
            errors=(400,),
        ),
    },
    "/sessions/{session_id}": {
        "get": Operation(does="a session", answers={200: SessionAnswer}, errors=(404,)),
        "patch": Operation(
            does="rename, pin, switch the profile",
            body=SessionChange,
            answers={200: SessionAnswer},
            errors=(400, 404, 408, 413, 415),
        ),
        "delete": Operation(does="take a session out of sight", answers={204: None}, errors=(404,)),
    },
    "/sessions/{session_id}/messages": {
        "post": Operation(
            does="send a message; 200 with the outcome of its turn, or 202 with `wait=false`",
            body=NewMessage,
            query=(("wait", {"type": "boolean", "default": True}, "wait for the turn's end"),),
            answers={200: TurnOutcome, 202: Receipt},
            errors=(400, 404, 408, 409, 413, 415, 429),
        ),
        "get": Operation(
            does="the display history",
            query=(_AT, _AFTER, _LIMIT),
            answers={200: MessageList},
            errors=(400, 404),
        ),
    },
    "/sessions/{session_id}/stop": {
        "post": Operation(
            does="stop the open turn, on whichever node it runs",
            answers={202: StopAnswer},
            errors=(404,),
        ),
    },
    "/sessions/{session_id}/fork": {
        "post": Operation(
            does="a new session that goes on from event `at` of this one, or from the nearest event "
            "before it at which no call is open",
            body=Fork,
            answers={201: ForkAnswer},
            errors=(400, 404, 408, 413, 415),
        ),
    },
    "/sessions/{session_id}/context": {
        "get": Operation(
            does="what the model sees",
            query=(_AT, ("subagent_id", {"type": "string"}, "what a subagent's model saw")),
            answers={200: ContextAnswer},
            errors=(400, 404),
        ),
    },
    "/sessions/{session_id}/todo": {
        "get": Operation(
            does="the todo list", query=(_AT,), answers={200: TodoAnswer}, errors=(400, 404)
        ),
    },
    "/sessions/{session_id}/planning": {
        "get": Operation(
            does="what the phases of planning gave",
            query=(_AT,),
            answers={200: PlanningAnswer},
            errors=(400, 404),
        ),
    },
    "/sessions/{session_id}/files": {
        "post": Operation(
            does="put files into the session's directory, all of the form or none; an earlier upload "
            "of the same name is replaced",
            body_content=_FORM,
            answers={201: FileList},
            errors=(400, 404, 408, 409, 413, 415, 507),
        ),
        "get": Operation(
            does="the uploads that are there",
            query=(_AT,),
            answers={200: FileList},
            errors=(400, 404),
        ),
    },
    "/sessions/{session_id}/files/{name}": {
        "get": Operation(
            does="the bytes of an upload; `If-None-Match` with its ETag: 304",
            answers={200: None, 304: None},
            answer_content=_ANY_BYTES,
            errors=(404,),
        ),
    },
    "/sessions/{session_id}/compress": {
        "post": Operation(
            does="summarise the older part of the context now",
            answers={200: Compressed},
            errors=(404, 409),
        ),
    },
    "/sessions/{session_id}/compress/undo": {
        "post": Operation(
            does="give back what the latest compression replaced",
            body=Undo,
            answers={200: Compressed},
            errors=(400, 404, 408, 409, 413, 415),
        ),
    },
    "/memories": {
        "get": Operation(
            does="what is remembered about the user",
            query=(("query", {"type": "string"}, "what answers this, best first"),),
            answers={200: MemoryList},
            errors=(400,),
        ),
        "post": Operation(
            does="keep a fact",
            body=MemoryText,
            answers={201: MemoryAnswer},
            errors=(400, 408, 413, 415),
        ),
    },
    "/memories/{memory_id}": {
        "patch": Operation(
            does="put another text in place of a memory's",
            body=MemoryText,
            answers={200: MemoryAnswer},
            errors=(400, 404, 408, 413, 415),
        ),
        "delete": Operation(does="forget a memory", answers={204: None}, errors=(404,)),
    },
    "/sessions/{session_id}/events": {
        "get": Operation(
            does="the events as they stand in the log",
            query=(_AFTER, _LIMIT, ("type", {"type": "string"}, "types, separated by commas")),
            answers={200: EventList},
            errors=(400, 404),
        ),
    },
    "/sessions/{session_id}/calls/{call_id}/request": {
        "get": Operation(
            does="what a model server was sent, rendered again from the log",
            answers={200: RenderedCall},
            errors=(404, 410),
        ),
    },
    "/profiles": {"get": Operation(does="the profiles", answers={200: ProfileList})},
    "/tools": {"get": Operation(does="the tools", answers={200: ToolList})},
    "/health/live": {"get": Operation(does="the process answers", answers={200: Alive})},
    "/health/ready": {
        "get": Operation(does="whether it takes work", answers={200: Ready, 503: Ready}),
    },
    "/schema": {"get": Operation(does="this document", answers={200: None})},
    "/schema/asyncapi.json": {
        "get": Operation(does="AsyncAPI of the WebSocket and of NATS", answers={200: None}),
    },
    "/schema/events.json": {
        "get": Operation(does="JSON Schema of the events", answers={200: None}),
    },
}


def openapi(version: str) -> JsonObject:
    """The document; ``version`` is navi's."""
    operations = [operation for methods in OPERATIONS.values() for operation in methods.values()]
    bodies = {operation.body for operation in operations} | {
        kind for operation in operations for kind in operation.answers.values()
    }
    kinds = sorted((kind for kind in bodies if kind is not None), key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components([*kinds, Problem], ref_template=SCHEMAS)
    schemas["EventList"]["properties"]["events"] = {
        "type": "array",
        "items": _reference("Envelope"),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "navi",
            "version": version,
            "description": "Live events and commands: `/schema/asyncapi.json`.",
        },
        "paths": {
            path: {method: _operation(path, operation) for method, operation in methods.items()}
            for path, methods in OPERATIONS.items()
        },
        "components": {
            "schemas": {
                **event_definitions(SCHEMAS),
                **schemas,
                "Envelope": envelope_schema(SCHEMAS),
            }
        },
    }


def _operation(path: str, operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.does,
        "parameters": [
            *(_parameter("path", name, {"type": "string"}) for name in _names_in(path)),
            *(_parameter("query", *parameter) for parameter in operation.query),
        ],
        "responses": {
            **{str(status): _answer(kind) for status, kind in operation.answers.items()},
            **{
                str(status): _problem()
                for status in (*operation.errors, 403, 500, 503)
                if status not in operation.answers
            },
        },
    }
    if operation.body_content is not None:
        described["requestBody"] = {"content": operation.body_content}
    if operation.answer_content is not None:
        described["responses"]["200"]["content"] = operation.answer_content
    if operation.body is not None:
        described["requestBody"] = {
            "content": {"application/json": {"schema": _reference(operation.body.__name__)}}
        }
    return described


def _parameter(place: str, name: str, schema: JsonObject, does: str = "") -> dict[str, Any]:
    return {
        "in": place,
        "name": name,
        "required": place == "path",
        "schema": schema,
        "description": does,
    }


def _answer(kind: type | None) -> dict[str, Any]:
    if kind is None:
        return {"description": "done"}
    return {
        "description": (kind.__doc__ or kind.__name__).partition("\n")[0],
        "content": {"application/json": {"schema": _reference(kind.__name__)}},
    }


def _problem() -> dict[str, Any]:
    return {
        "description": "a problem (RFC 9457)",
        "content": {PROBLEM_JSON: {"schema": _reference("Problem")}},
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": SCHEMAS.format(name=name)}


def _names_in(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
