"""Parameters of tools as they are sent: each token of them is paid for at every call.

Checks keep the whole rules, and say in words what does not fit.
"""

from typing import cast

from navi.domain.vocabulary.events import Json, JsonObject

# About the code, or bounds that a sensible call keeps anyway.
_LEFT_OUT = frozenset(
    ("$schema", "$id", "title", "minLength", "maxLength", "minItems", "maxItems", "minimum")
)
_MAY_BE_EMPTY = ("default", "description", "required")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")  # schemas by name
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_NULL: JsonObject = {"type": "null"}


def lean_schema(schema: JsonObject) -> JsonObject:
    """A JSON Schema object without what a model can do without: what fits it may still be refused.

    An argument that may be left out is of its plain type, where its default is null: leaving it out
    says the same. Defaults that say nothing are left out, others stay.
    """
    lean = cast(JsonObject, _lean(schema))
    if not lean.get("required") and schema.get("additionalProperties") is False:
        # Nothing else tells arguments from an object that they are wrapped in.
        lean["additionalProperties"] = False
    return lean


def _lean(schema: Json) -> Json:
    if not isinstance(schema, dict):
        return schema
    lean: JsonObject = {}
    for key, value in cast(JsonObject, schema).items():
        if key in _LEFT_OUT or (key in _MAY_BE_EMPTY and _says_nothing(value)):
            continue
        if key == "additionalProperties" and isinstance(value, bool):
            continue
        if key in _NAMED and isinstance(value, dict):
            named = cast(JsonObject, value)
            lean[key] = {name: _lean(_not_null(part)) for name, part in named.items()}
        elif key in _LISTED and isinstance(value, list):
            lean[key] = [_lean(part) for part in cast(list[Json], value)]
        elif key in ("items", "additionalProperties"):
            lean[key] = _lean(value)
        else:
            lean[key] = value
    return lean


def _says_nothing(value: Json) -> bool:
    empty = isinstance(value, str | list | dict) and not value
    return value is None or value is False or empty


def _not_null(schema: Json) -> Json:
    """A property whose default is null, without the null among its types."""
    match schema:
        case {"anyOf": [*variants], "default": None, **rest} if _NULL in variants:
            others = [variant for variant in variants if variant != _NULL]
            if len(others) == 1 and isinstance(others[0], dict):
                return {**cast(JsonObject, others[0]), **cast(JsonObject, rest)}
            return {**cast(JsonObject, rest), "anyOf": others}
        case {"type": [*names], "default": None, **rest} if "null" in names:
            types = [name for name in names if name != "null"]
            return {"type": types[0] if len(types) == 1 else types, **cast(JsonObject, rest)}
        case _:
            return schema
