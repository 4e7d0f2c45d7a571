"""Tool arguments as msgspec structs: JSON Schema, and validation errors in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from navi.adapters.tools.value_faults import faults_in
from navi.domain.tools.lean_schema import lean_schema
from navi.domain.tools.schema_references import write_out
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Json, JsonObject
from navi.domain.vocabulary.validation_errors import validation_error

S = TypeVar("S", bound=Struct)

MAX_DEPTH = 64  # levels; a struct in a list takes three
MAX_PARTS = 8_192  # values of a schema, as of an MCP server
MOST_TOLD = 20  # of what is wrong with the arguments of a call

_DEFINITIONS = "#/$defs/"


def schema_of(arguments: type[Struct]) -> JsonObject:
    """The JSON Schema object of a struct as it is sent, references written out where they can be.

    Raises:
        TypeError: a field has a type that JSON does not know.
        SchemaTooLarge: kinds within one another come to too much.
    """
    (schema,), definitions = msgspec.json.schema_components(
        (arguments,), ref_template=_DEFINITIONS + "{name}"
    )
    root: JsonObject = {"$defs": definitions}
    whole = cast(
        JsonObject,
        write_out(schema, root, depth=MAX_DEPTH, parts=MAX_PARTS, instead=_reference),
    )
    # Title and description are the struct's name and docstring: about the code, not for the model.
    whole.pop("title", None)
    whole.pop("description", None)
    whole["additionalProperties"] = False
    if recursive := _references(whole):
        whole["$defs"] = {name: definitions[name] for name in _closure(recursive, definitions)}
    return _values_once(lean_schema(whole))


def _values_once(schema: JsonObject) -> JsonObject:
    """The schema with the values of an argument told once, where objects in a list have one of its name.

    Each value costs tokens of every call, and the check knows them anyway.
    """
    properties = cast(JsonObject, schema.get("properties", {}))
    told = {name: value for name, value in properties.items() if "enum" in value}

    def inner(value: Any) -> Any:
        match value:
            case {"items": {"properties": dict()} as items}:
                named = cast(JsonObject, items["properties"])
                short = {n: {"type": "string"} if told.get(n) == s else s for n, s in named.items()}
                return {**value, "items": {**items, "properties": short}}
            case _:
                return value

    return {**schema, "properties": {name: inner(value) for name, value in properties.items()}}


def parse_arguments(kind: type[S], arguments: JsonObject) -> S:
    """Parse arguments; a number written as a string is accepted.

    Raises:
        BadInput: an argument is unknown, missing or of the wrong type; it is named.
    """
    fields = _fields_of(kind)
    required = tuple(field.encode_name for field in fields if field.required)
    known = tuple(field.encode_name for field in fields)
    for fault in name_faults(arguments, known=known, required=required):
        raise fault
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        try:
            # Small models write "5" for 5; refusing that costs a whole iteration.
            return msgspec.convert(arguments, kind, strict=False)
        except msgspec.ValidationError:
            raise validation_error(error, whole="arguments") from error


@lru_cache(maxsize=256)
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a struct, which msgspec reads from its annotations each time it is asked."""
    return msgspec.structs.fields(kind)


def name_faults(
    arguments: Mapping[str, Json], *, known: tuple[str, ...], required: tuple[str, ...]
) -> tuple[BadInput, ...]:
    """The names of arguments that do not exist, and of those that are missing."""
    faults: list[BadInput] = []
    if unknown := [name for name in arguments if name not in known]:
        there_are = ", ".join(known) if known else "none"
        faults.append(
            BadInput(", ".join(unknown), f"is not an argument of this tool; there are: {there_are}")
        )
    faults.extend(BadInput(name, "is missing") for name in required if name not in arguments)
    return tuple(faults)


def problem_with(kind: type[Struct], schema: JsonObject, arguments: JsonObject) -> str | None:
    """What is wrong with the arguments, all of it, in words for the model; None when they are fine.

    A model that is told one fault at a time needs a call for each.
    """
    fields = _fields_of(kind)
    names = name_faults(
        arguments,
        known=tuple(field.encode_name for field in fields),
        required=tuple(field.encode_name for field in fields if field.required),
    )
    return all_in_words(chain(names, _faults_of_values(kind, schema, arguments)), schema)


def _faults_of_values(
    kind: type[Struct], schema: JsonObject, arguments: JsonObject
) -> Iterator[BadInput]:
    for field in _fields_of(kind):
        if field.encode_name in arguments:
            value = arguments[field.encode_name]
            try:
                # As `parse_arguments` does: "5" is taken for 5.
                msgspec.convert(value, field.type, strict=False)
            except msgspec.ValidationError as error:
                first = validation_error(error, whole="")
                yield from _faults_of(field.encode_name, value, first, schema)


def _faults_of(name: str, value: Json, first: BadInput, schema: JsonObject) -> Sequence[BadInput]:
    """All that is wrong with an argument: what the types say first, and what the schema says beside it."""
    path = f"{name}.{first.field}".rstrip(".").replace(".[", "[")
    within = schema.get("properties", {}).get(name, True)
    found = tuple(islice(faults_in(name, value, within, schema), MOST_TOLD + 1))
    more = [
        fault
        for fault in found
        if not f"{path}.".startswith((f"{fault.field}.", f"{fault.field}["))
    ]
    # Of an object with any keys the types do not say which; a null that stands for a default is none.
    passed_over = first.cause.endswith("got null") and len(more) == len(found)
    if more and ("[...]" in path or passed_over):
        return more
    return [BadInput(path, first.cause), *more]


def all_in_words(faults: Iterable[BadInput], schema: JsonObject) -> str | None:
    """Some refusals as the model reads them, together, the first of many; None where there are none."""
    rest = iter(faults)
    told = [in_words(fault, schema) for fault in islice(rest, MOST_TOLD)]
    if next(rest, None) is not None:
        told.append("and more")
    return "; ".join(told) or None


def in_words(bad: BadInput, schema: JsonObject) -> str:
    """A refusal as the model reads it, with the values that are allowed where they are few."""
    values = schema.get("properties", {}).get(bad.field, {}).get("enum")
    allowed = f"; allowed: {', '.join(map(str, values))}" if values else ""
    return f"argument {bad}{allowed}"


def _reference(reference: str) -> JsonObject:
    return {"$ref": reference}


def _references(schema: Json) -> set[str]:
    match schema:
        case dict():
            found: set[str] = set()
            for key, value in cast(JsonObject, schema).items():
                if key == "$ref" and isinstance(value, str):
                    found.add(value.removeprefix(_DEFINITIONS))
                else:
                    found |= _references(value)
            return found
        case list():
            return set[str]().union(*(_references(item) for item in cast(list[Json], schema)))
        case _:
            return set()


def _closure(names: set[str], definitions: Mapping[str, Json]) -> list[str]:
    reached: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= _references(definitions[name]) - reached
    return sorted(reached)
