"""Arguments of a tool call with the usual slips put right, by the tool's schema."""

import re
from typing import cast

from navi.domain.tools.json_schema import MAX_DEPTH, fits, is_of, types_of
from navi.domain.tools.loose_json import NotJson, read_loose
from navi.domain.tools.schema_references import Schema, resolved
from navi.domain.vocabulary.events import Json, JsonObject

WRAPPERS = (
    "arguments",
    "parameters",
    "args",
    "input",
)  # in which models put all arguments once more

_INTEGER = re.compile(r"-?\d{1,18}")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,2})?")
_FENCE = re.compile(r"\A\s*```[a-z]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def mend(arguments: JsonObject | None, raw: str, schema: JsonObject) -> JsonObject | None:
    """Arguments that fit a schema, made of some that do not; None where nothing is to be mended.

    Nothing is guessed: a number written as text becomes a number, a lone value a list of one, JSON in
    JSON what it says, and a null that stands for "not given" goes. What still does not fit is left as
    the model wrote it, so that the model is told.

    Args:
        arguments: as the model wrote them; None where they are no JSON object.
        raw: their text, for that case.
    """
    if arguments is not None and fits(arguments, schema, schema):
        return None
    written: Json = arguments
    if written is None:
        fence = _FENCE.match(raw)
        try:
            written = read_loose(fence[1] if fence else raw)
        except NotJson:
            return None
    for candidate in _unwrapped(written, schema):
        mended = _coerced(candidate, schema, schema, 0)
        if isinstance(mended, dict) and fits(mended, schema, schema):
            return cast(JsonObject, mended)
    return None


def _unwrapped(written: Json, schema: Schema) -> list[Json]:
    """What may be meant by the arguments: themselves, or what they are wrapped in."""
    candidates: list[Json] = [written]
    for _ in range(3):
        inner = _inner(candidates[-1], schema)
        if inner is None:
            break
        candidates.append(inner)
    return candidates


def _inner(written: Json, schema: Schema) -> Json:
    """What some arguments are wrapped in, where they are nothing but a wrapper; else None."""
    if isinstance(written, str):
        try:
            return read_loose(written)
        except NotJson:
            return None
    if isinstance(written, list):
        items = cast(list[Json], written)
        return cast(Json, items[0]) if len(items) == 1 and isinstance(items[0], dict) else None
    if not isinstance(written, dict):
        return None
    whole = cast(JsonObject, written)
    names = set(whole) - {"name"}
    name = next(iter(names), "")
    wraps = len(names) == 1 and name in WRAPPERS and name not in schema.get("properties", {})
    return whole[name] if wraps else None


def _coerced(value: Json, schema: Json, root: Schema, depth: int) -> Json:
    """A value as a schema has it, where there is one way to have it; else as it is."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    schema = resolved(cast(JsonObject, schema), root)
    if fits(value, schema, root):
        return value
    for key in ("anyOf", "oneOf"):
        for variant in schema.get(key, ()):
            changed = _coerced(value, variant, root, depth + 1)
            if fits(changed, variant, root):
                return changed
    if "enum" in schema and isinstance(value, str):
        meant = [e for e in schema["enum"] if str(e).casefold() == value.strip().casefold()]
        return meant[0] if len(meant) == 1 else value
    for name in types_of(schema):
        changed = _as_type(value, name)
        if is_of(changed, name):
            return _inside(changed, schema, root, depth)
    return value


def _as_type(value: Json, name: str) -> Json:
    match name, value:
        case "integer", str(text) if _INTEGER.fullmatch(text.strip()):
            return int(text)
        case "integer", float(number) if number.is_integer():
            return int(number)
        case "number", str(text) if _NUMBER.fullmatch(text.strip()):
            return int(text) if _INTEGER.fullmatch(text.strip()) else float(text)
        case "boolean", str(text) if text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        case "null", str(text) if text.strip().lower() in ("null", "none"):
            return None
        case "string", bool(truth):
            return "true" if truth else "false"
        case "string", int() | float():
            return str(value)
        case "object", str(text):
            return _read(text)
        case "array", str(text):
            read = _read(text)
            return cast(Json, read) if isinstance(read, list) else [read]
        case "array", dict() | bool() | int() | float():
            return [cast(Json, value)]
        case _:
            return value


def _read(text: str) -> Json:
    """The object or list that a text says; else the text."""
    try:
        read = read_loose(text)
    except NotJson:
        return text
    return cast(Json, read) if isinstance(read, list | dict) else text


def _inside(value: Json, schema: JsonObject, root: Schema, depth: int) -> Json:
    """The parts of an object or a list, as their schemas have them."""
    if isinstance(value, list):
        items = schema.get("items", True)
        return [_coerced(item, items, root, depth + 1) for item in cast(list[Json], value)]
    if not isinstance(value, dict):
        return value
    properties = cast(JsonObject, schema.get("properties", {}))
    others = schema.get("additionalProperties", True)
    required = schema.get("required", ())
    whole = cast(JsonObject, value)
    return {
        name: _coerced(item, properties.get(name, others), root, depth + 1)
        for name, item in whole.items()
        if item is not None
        or name in required
        or name not in properties
        or fits(None, properties[name], root)
    }
