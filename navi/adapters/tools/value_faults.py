"""Arguments whose values cannot fit a schema, in the words that the check of types uses."""

from collections.abc import Iterator
from typing import cast

from navi.domain.tools.json_schema import fits, types_of
from navi.domain.tools.mend_arguments import mend
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Json, JsonObject

_WORDS = {"integer": "int", "string": "str", "number": "float", "boolean": "bool"}


def value_faults(arguments: JsonObject, parameters: JsonObject) -> Iterator[BadInput]:
    """What is wrong with the values of arguments that there are; a null may stand for a default."""
    properties = cast(JsonObject, parameters.get("properties", {}))
    for name, value in arguments.items():
        schema = properties.get(name)
        if schema is None or value is None or fits(value, schema, parameters):
            continue
        alone: JsonObject = {**parameters, "properties": {name: schema}, "required": ()}
        if mend({name: value}, "", alone) is None:
            yield BadInput(name, _cause(value, cast(JsonObject, schema)))


def _cause(value: Json, schema: JsonObject) -> str:
    if "enum" in schema:
        return f"invalid enum value {value!r}"
    expected = " | ".join(_WORDS.get(name, name) for name in types_of(schema))
    return f"expected {expected}, got {type(value).__name__}" if expected else "does not fit"
