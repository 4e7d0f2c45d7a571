"""OpenAPI 3.1 of the HTTP routes, out of what each of them declares (``operation``)."""

from collections.abc import Iterable
from typing import Any

import msgspec
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from msgspec import Struct

from navi.domain.vocabulary.events import JsonObject
from navi.http.doors.openai import errors as openai_errors
from navi.http.doors.openai.errors import OpenAIError
from navi.http.requests.access import access_of
from navi.http.requests.errors import PROBLEM_JSON, Problem
from navi.http.requests.operation import Operation, operation_of
from navi.http.schemas.event_schema import envelope_schema, event_definitions, strict

SCHEMAS = "#/components/schemas/{name}"

_METHODS = (
    "get",
    "post",
    "patch",
    "delete",
)  # that are described; HEAD and OPTIONS follow from them
_UUID: JsonObject = {"type": "string", "format": "uuid"}


class Route(Struct, frozen=True, kw_only=True):
    """A method of a path, and the handler that serves it."""

    path: str
    method: str
    handler: HTTPRouteHandler


def routes_in(handlers: Iterable[BaseRouteHandler]) -> tuple[Route, ...]:
    """The HTTP routes of the API among some handlers, a method and a path each."""
    return tuple(
        Route(
            path=path.replace(":str}", "}").replace(":path}", "}"),
            method=str(method).lower(),
            handler=handler,
        )
        for handler in handlers
        if isinstance(handler, HTTPRouteHandler) and handler.include_in_schema is not False
        for path in handler.paths
        for method in handler.http_methods
        if str(method).lower() in _METHODS
    )


def openapi(version: str, handlers: Iterable[BaseRouteHandler]) -> JsonObject:
    """The document; ``version`` is navi's."""
    routes = routes_in(handlers)
    operations = [operation_of(route.handler) for route in routes]
    paths: dict[str, dict[str, Any]] = {}
    for route, operation in zip(routes, operations, strict=True):
        paths.setdefault(route.path, {})[route.method] = _operation(route, operation)
    bodies = {operation.body for operation in operations} | {
        kind for operation in operations for kind in operation.answers.values()
    }
    kinds = sorted((kind for kind in bodies if kind is not None), key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(
        [*kinds, Problem, OpenAIError], ref_template=SCHEMAS
    )
    schemas = strict(components)
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
        "paths": paths,
        "components": {
            "schemas": {
                **event_definitions(SCHEMAS),
                **schemas,
                "Envelope": envelope_schema(SCHEMAS),
            }
        },
    }


def _operation(route: Route, operation: Operation) -> dict[str, Any]:
    called = route.handler.fn
    described: dict[str, Any] = {
        "operationId": called.__name__,
        "summary": (called.__doc__ or "").partition("\n")[0].removesuffix("."),
        "parameters": [
            *(
                _parameter("path", name, operation.in_path.get(name) or _schema_of(name))
                for name in _names_in(route.path)
            ),
            *(_parameter("query", *parameter) for parameter in operation.query),
            *(_parameter("header", *parameter) for parameter in operation.headers),
        ],
        "responses": {
            **{str(status): _answer(kind) for status, kind in operation.answers.items()},
            **{
                str(status): _problem(route.path)
                for status in (*operation.errors, *_of_access(route), 403, 405, 500, 503)
                if status not in operation.answers
            },
        },
    }
    if operation.body_content is not None:
        described["requestBody"] = {"content": operation.body_content, "required": True}
    if operation.answer_content is not None:
        usual = described["responses"]["200"].get("content", {})
        described["responses"]["200"]["content"] = {**usual, **operation.answer_content}
    if operation.body is not None:
        described["requestBody"] = {
            "content": {"application/json": {"schema": _reference(operation.body.__name__)}},
            # A body of which every field may be left out may be left out itself.
            "required": any(field.required for field in msgspec.structs.fields(operation.body)),
        }
    return described


def _of_access(route: Route) -> tuple[int, ...]:
    """Statuses of problems that every route has which is not open to all."""
    return () if access_of(route.handler) == "open" else (401, 429)


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


def _problem(path: str) -> dict[str, Any]:
    if path.startswith(openai_errors.PREFIX):
        return _answer(OpenAIError)
    return {
        "description": "a problem (RFC 9457)",
        "content": {PROBLEM_JSON: {"schema": _reference("Problem")}},
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": SCHEMAS.format(name=name)}


def _schema_of(name: str) -> JsonObject:
    # Profiles are called by names, and the first admin's id is one.
    is_uuid = name.endswith("_id") and name not in ("profile_id", "user_id")
    return _UUID if is_uuid else {"type": "string", "minLength": 1}


def _names_in(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
