"""Arguments whose values cannot fit a schema, in the words that the check of types uses."""

from collections.abc import Iterator
from typing import cast

from navi.domain.tools.json_schema import MAX_DEPTH, fits, types_of
from navi.domain.tools.mend_arguments import mend
from navi.domain.tools.schema_references import Schema, resolved
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Json, JsonObject

_WORDS = {"integer": "int", "string": "str", "number": "float", "boolean": "bool"}
_NULL = {"type": "null"}


def value_faults(arguments: JsonObject, parameters: JsonObject) -> Iterator[BadInput]:
    """What is wrong with the values of arguments that there are; a null may stand for a default."""
    properties = cast(JsonObject, parameters.get("properties", {}))
    for name, value in arguments.items():
        if value is not None:
            yield from faults_in(name, value, properties.get(name, True), parameters)


def faults_in(
    path: str, value: Json, schema: Json, root: Schema, depth: int = 0
) -> Iterator[BadInput]:
    """Everything in a value that does not fit, by its path: each wrong item, each missing field.

    Found one by one as they are asked for: there may be very many, of which few are told.
    """
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return
    schema = _alone(resolved(cast(JsonObject, schema), root), root)
    if _does(value, schema, root):
        return
    inner = _faults_inside(path, value, schema, root, depth + 1)
    yield next(inner, None) or BadInput(path, _cause(value, schema))
    yield from inner


def _faults_inside(
    path: str, value: Json, schema: JsonObject, root: Schema, depth: int
) -> Iterator[BadInput]:
    match value:
        case dict():
            fields = cast(JsonObject, value)
            properties = cast(JsonObject, schema.get("properties", {}))
            others = schema.get("additionalProperties", True)
            required = schema.get("required", ())
            for name in required:
                if name not in fields:
                    yield BadInput(f"{path}.{name}", "is missing")
            for name, item in fields.items():
                if item is None and name in properties and name not in required:
                    continue  # it stands for "not given", as `mend` has it
                expected = properties.get(name, others)
                yield from faults_in(f"{path}.{name}", item, expected, root, depth)
        case list():
            for place, item in enumerate(cast(list[Json], value)):
                yield from faults_in(
                    f"{path}[{place}]", item, schema.get("items", True), root, depth
                )
        case _:
            return


def _alone(schema: JsonObject, root: Schema) -> JsonObject:
    """Of a value that may be null the schema of the other case."""
    variants = [one for one in schema.get("anyOf", ()) if one != _NULL]
    if len(variants) != 1 or not isinstance(variants[0], dict):
        return schema
    return resolved(cast(JsonObject, variants[0]), root)


def _does(value: Json, schema: JsonObject, root: Schema) -> bool:
    """Whether a value fits, or would be mended so that it does."""
    if fits(value, schema, root):
        return True
    alone: JsonObject = {**root, "properties": {"value": schema}, "required": ("value",)}
    return mend({"value": value}, "", alone) is not None


def _cause(value: Json, schema: JsonObject) -> str:
    if "enum" in schema:
        return f"invalid enum value {value!r}"
    expected = " | ".join(_WORDS.get(name, name) for name in types_of(schema))
    return f"expected {expected}, got {type(value).__name__}" if expected else "does not fit"
