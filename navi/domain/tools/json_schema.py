"""The part of JSON Schema that tools' parameters are written in: whether a value fits.

Keywords that are not known here are passed over: a tool's own check has the last word. So is ``pattern``:
an expression may take for ever on a text made for it, and MCP servers send theirs.
"""

from typing import cast

from navi.domain.tools.schema_references import Schema, resolved
from navi.domain.vocabulary.events import Json, JsonObject

MAX_DEPTH = 32  # of values in one another


def fits(value: Json, schema: Json, root: Schema, depth: int = 0) -> bool:
    """Whether a value is as a schema asks; ``root`` is where its references lead."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return schema is not False and depth <= MAX_DEPTH
    schema = resolved(cast(JsonObject, schema), root)
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
        return False
    if (types := types_of(schema)) and not any(is_of(value, name) for name in types):
        return False
    for key in ("anyOf", "oneOf"):
        variants = schema.get(key)
        if isinstance(variants, list) and not any(
            fits(value, variant, root, depth + 1) for variant in cast(list[Json], variants)
        ):
            return False
    if not all(fits(value, part, root, depth + 1) for part in schema.get("allOf", ())):
        return False
    match value:
        case dict():
            return _object_fits(cast(JsonObject, value), schema, root, depth)
        case list():
            items = cast(list[Json], value)
            return schema.get("minItems", 0) <= len(items) <= schema.get(
                "maxItems", len(items)
            ) and all(fits(item, schema.get("items", True), root, depth + 1) for item in items)
        case str():
            return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        case int() | float() if not isinstance(value, bool):
            return schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case _:
            return True


def types_of(schema: Schema) -> tuple[str, ...]:
    """The names of the types that a schema allows; empty where it does not say."""
    match schema.get("type"):
        case str(name):
            return (name,)
        case list():
            return tuple(str(name) for name in cast(list[Json], schema["type"]))
        case _:
            return ()


def is_of(value: Json, name: str) -> bool:
    """Whether a value is of a type of JSON Schema."""
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return True


def _object_fits(value: JsonObject, schema: JsonObject, root: Schema, depth: int) -> bool:
    properties = cast(JsonObject, schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    return all(name in value for name in schema.get("required", ())) and all(
        fits(item, properties.get(name, others), root, depth + 1) for name, item in value.items()
    )


def _same(one: Json, other: Json) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)
