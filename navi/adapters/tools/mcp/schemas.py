"""Input schemas of MCP servers, which may be anything, as models and checks take them."""

from typing import Any, cast

import msgspec
from jsonschema import SchemaError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType] - its key
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from msgspec import Struct
from referencing import Registry
from referencing.exceptions import Unresolvable

from navi.domain.tools.lean_schema import lean_schema
from navi.domain.tools.schema_references import DATA, NAMED, SchemaTooLarge, write_out
from navi.domain.tools.tool_output import clean_json, clean_text
from navi.domain.vocabulary.events import Json, JsonObject

MAX_SCHEMA_BYTES = 64 * 1024  # of JSON, with its references written out: 16,000 tokens
MAX_PARTS = MAX_SCHEMA_BYTES // 8  # values
MAX_DEPTH = 24  # levels; deeper ones say nothing to a model
MAX_FAULT = 500  # characters of what a check says

# Expressions that take for ever on a text made for it, and what is looked up elsewhere.
_NOT_HERE = frozenset(
    ("pattern", "patternProperties", "propertyNames", "format", "uniqueItems", "$schema", "$id")
)
_TOO_LARGE = f"its input schema is larger than {MAX_SCHEMA_BYTES:,} bytes"


class NotASchema(Exception):
    """A tool cannot be described with this; the message says why."""


class UsableSchema(Struct, frozen=True, kw_only=True):
    """A tool's input schema.

    Attributes:
        whole: as the server sent it.
        parameters: as the model is told, references written out.
        rules: of ``whole``, what can be checked in bounded time.
    """

    whole: JsonObject
    parameters: JsonObject
    rules: JsonObject


def usable_schema(schema: Json) -> UsableSchema:
    """The schema of a tool, checked and written out.

    Raises:
        NotASchema: it is none, is not of an object, or is too large.
    """
    if not isinstance(schema, dict):
        raise NotASchema("its input schema is not an object")
    try:
        whole = cast(JsonObject, clean_json(schema))
        _require_small(whole)
        _kind_of(whole).check_schema(whole)
        if whole.get("type", "object") != "object":
            raise NotASchema("its input schema is not of an object")
        written = cast(
            JsonObject,
            write_out(whole, whole, depth=MAX_DEPTH, parts=MAX_PARTS, instead=_anything),
        )
        _require_small(written)
        written = {**written, "type": "object", "properties": written.get("properties", {})}
        for name in ("$defs", "definitions"):
            written.pop(name, None)
        return UsableSchema(
            whole=whole,
            parameters=lean_schema(written),
            rules=cast(JsonObject, _checkable(written)),
        )
    except SchemaError as error:
        raise NotASchema(f"its input schema is none: {error.message[:MAX_FAULT]}") from error
    except SchemaTooLarge as error:
        raise NotASchema(_TOO_LARGE) from error
    except (RecursionError, OverflowError, TypeError, ValueError, AttributeError) as error:
        # Checkers of schemas are written for schemas: on others they fail as they like.
        raise NotASchema(f"its input schema is none: {type(error).__name__}") from error


def fault_in(schema: JsonObject, arguments: JsonObject) -> str | None:
    """What is wrong with the arguments by the whole schema, in words; None where they fit.

    Nothing is fetched: a reference to elsewhere is left to the server.
    """
    checker: Validator = _kind_of(schema)(schema, registry=Registry[Any]())
    return _first_fault(checker, arguments)


def fault_by_rules(rules: JsonObject, arguments: JsonObject) -> str | None:
    """What is wrong with the arguments by the rules of a usable schema; None where they fit."""
    return _first_fault(Draft202012Validator(rules, registry=Registry[Any]()), arguments)


def _first_fault(checker: Validator, arguments: JsonObject) -> str | None:
    """The fault that says most."""
    try:
        fault = cast("Any", best_match(checker.iter_errors(arguments)))
    except (Unresolvable, RecursionError):
        return None
    if fault is None:
        return None
    where = ".".join(str(part) for part in fault.absolute_path)
    message = clean_text(str(fault.message))
    if len(message) > MAX_FAULT:
        message = f"{message[:MAX_FAULT]}…"
    return f"argument {where}: {message}" if where else f"arguments: {message}"


def parts_of(value: Json) -> int:
    """How many values there are in a value, itself included."""
    match value:
        case dict():
            return 1 + sum(parts_of(part) for part in cast(JsonObject, value).values())
        case list():
            return 1 + sum(parts_of(part) for part in cast(list[Json], value))
        case _:
            return 1


def _kind_of(schema: JsonObject) -> type[Validator]:
    return validator_for(schema, default=Draft202012Validator)


def _require_small(schema: JsonObject) -> None:
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
        raise NotASchema(_TOO_LARGE)


def _anything(reference: str) -> JsonObject:
    del reference
    return {}


def _checkable(schema: Json) -> Json:
    match schema:
        case dict():
            kept: JsonObject = {}
            for key, value in cast(JsonObject, schema).items():
                if key in DATA:
                    kept[key] = value
                elif key in NAMED and isinstance(value, dict) and key not in _NOT_HERE:
                    parts = cast(JsonObject, value).items()
                    kept[key] = {name: _checkable(part) for name, part in parts}
                elif key in ("additionalProperties", "unevaluatedProperties") and (
                    "patternProperties" in schema
                ):
                    continue  # which names it is about, only the patterns say
                elif key not in _NOT_HERE:
                    kept[key] = _checkable(value)
            return kept
        case list():
            return [_checkable(part) for part in cast(list[Json], schema)]
        case _:
            return schema
