"""Arguments of tools as msgspec structs: their JSON Schema, and what is wrong with them in words."""

from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from navi.domain.errors import BadInput
from navi.domain.events import Json, JsonObject
from navi.domain.misfit import misfit

S = TypeVar("S", bound=Struct)

_DEFINITIONS = "#/$defs/"


def schema_of(arguments: type[Struct]) -> JsonObject:
    """The JSON Schema object of a struct, references written out where they are not recursive.

    Raises:
        TypeError: a field has a type that JSON does not know.
    """
    (schema,), definitions = msgspec.json.schema_components(
        (arguments,), ref_template=_DEFINITIONS + "{name}"
    )
    whole = cast(JsonObject, _write_out(schema, definitions, ()))
    # Title and description are the struct's name and docstring: about the code, not for the model.
    whole.pop("title", None)
    whole.pop("description", None)
    whole["additionalProperties"] = False
    if recursive := _references(whole):
        whole["$defs"] = {name: definitions[name] for name in _closure(recursive, definitions)}
    return whole


def parse_arguments(kind: type[S], arguments: JsonObject) -> S:
    """The arguments as the tool wants them; a number written as a string is taken as one.

    Raises:
        BadInput: an argument is unknown, missing or of the wrong type; it is named.
    """
    fields = msgspec.structs.fields(kind)
    required = tuple(field.encode_name for field in fields if field.required)
    check_names(arguments, known=tuple(f.encode_name for f in fields), required=required)
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        try:
            # Small models write "5" for 5; refusing that costs a whole iteration.
            return msgspec.convert(arguments, kind, strict=False)
        except msgspec.ValidationError:
            raise misfit(error, whole="arguments") from error


def check_names(
    arguments: Mapping[str, Json], *, known: tuple[str, ...], required: tuple[str, ...]
) -> None:
    """Refuse arguments that do not exist, and ask for those that are missing.

    Raises:
        BadInput: names all of them.
    """
    unknown = [name for name in arguments if name not in known]
    if unknown:
        there_are = ", ".join(known) if known else "none"
        raise BadInput(
            ", ".join(unknown), f"is not an argument of this tool; there are: {there_are}"
        )
    missing = [name for name in required if name not in arguments]
    if missing:
        raise BadInput(", ".join(missing), "is missing")


def problem_with(kind: type[Struct], schema: JsonObject, arguments: JsonObject) -> str | None:
    """What is wrong with the arguments, in words for the model; None when they are fine."""
    try:
        parse_arguments(kind, arguments)
    except BadInput as bad:
        return in_words(bad, schema)
    return None


def in_words(bad: BadInput, schema: JsonObject) -> str:
    """A refusal as the model reads it, with the values that are allowed where they are few."""
    values = schema.get("properties", {}).get(bad.field, {}).get("enum")
    allowed = f"; allowed: {', '.join(map(str, values))}" if values else ""
    return f"argument {bad}{allowed}"


def _write_out(schema: Json, definitions: Mapping[str, Json], inside: tuple[str, ...]) -> Json:
    match schema:
        case {"$ref": str(reference), **rest} if reference.startswith(_DEFINITIONS):
            name = reference.removeprefix(_DEFINITIONS)
            if name in inside:
                return schema
            written = _write_out(definitions[name], definitions, (*inside, name))
            return {**written, **cast(JsonObject, rest)}
        case dict():
            items = cast(JsonObject, schema).items()
            return {key: _write_out(value, definitions, inside) for key, value in items}
        case list():
            return [_write_out(item, definitions, inside) for item in cast(list[Json], schema)]
        case _:
            return schema


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
