"""Flatten JSON Schema for Ollama, which silently drops most keywords: they become text.

Ollama reads ``type``, ``properties``, ``required``, ``items``, ``anyOf``, ``enum`` and
``description`` (``ToolFunctionParameters`` in its ``api/types.go``) and nothing else.
"""

import contextlib
from typing import Any, cast

import msgspec

from navi.domain.tools.schema_references import resolved
from navi.domain.vocabulary.events import Json, JsonObject

MAX_DEPTH = 16  # levels; deeper schemas help no model, and a recursive one has no end
MAX_PARTS = 600  # schemas in one that refers to itself twice double with every level

_KEPT = ("type", "enum")
_SAID = (
    "format",
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "examples",
)


def flatten(schema: JsonObject) -> JsonObject:
    """A tool's parameters with the same meaning, in the keywords that Ollama passes on."""
    for depth in (MAX_DEPTH, MAX_DEPTH // 2, MAX_DEPTH // 4, MAX_DEPTH // 8):
        with contextlib.suppress(_TooManyPartsError):
            return _as_object(_Writer(schema, MAX_PARTS).flat(schema, depth))
    return _as_object(_Writer(schema, None).flat(schema, 1))


def _as_object(flat: JsonObject) -> JsonObject:
    return {**flat, "type": "object", "properties": flat.get("properties", {})}


class _TooManyPartsError(Exception):
    """The schema is too large when written out to this depth."""


class _Writer:
    """Writes a schema out, in at most so many parts."""

    def __init__(self, root: JsonObject, parts: int | None) -> None:
        self._root = root
        self._left = parts

    def flat(self, schema: Json, depth: int) -> JsonObject:
        if self._left is not None:
            if self._left == 0:
                raise _TooManyPartsError
            self._left -= 1
        if not isinstance(schema, dict):
            return {}  # true: anything goes
        if depth == 0:
            return {"type": "object"}
        source = _merged(cast(JsonObject, schema), self._root)
        flat: JsonObject = {key: source[key] for key in _KEPT if key in source}
        if "const" in source:
            flat["enum"] = [source["const"]]
        description = _described(source)
        if description:
            flat["description"] = description
        if isinstance(source.get("properties"), dict):
            flat["properties"] = {
                name: self.flat(child, depth - 1) for name, child in source["properties"].items()
            }
        if source.get("required"):
            flat["required"] = source["required"]
        if "items" in source:
            flat["items"] = self.flat(source["items"], depth - 1)
        choices = source.get("anyOf") or source.get("oneOf")
        if isinstance(choices, list):
            flat["anyOf"] = [self.flat(choice, depth - 1) for choice in cast(list[Any], choices)]
        return flat


def _merged(schema: JsonObject, root: JsonObject) -> JsonObject:
    """The schema with ``$ref`` and ``allOf`` written out; what stands beside them wins."""
    merged: JsonObject = {}
    parts: list[Json] = [{"$ref": schema.get("$ref")}, *schema.get("allOf", [])]
    for part in parts:
        if not isinstance(part, dict):
            continue
        whole = resolved(cast(JsonObject, part), root)
        properties = {**merged.get("properties", {}), **whole.get("properties", {})}
        required = [*merged.get("required", []), *whole.get("required", [])]
        merged |= {key: value for key, value in whole.items() if key != "$ref"}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    if "properties" in own and "properties" in merged:
        own["properties"] = {**merged["properties"], **own["properties"]}
    if "required" in own and "required" in merged:
        own["required"] = list(dict.fromkeys([*merged["required"], *own["required"]]))
    return {**merged, **own}


def _described(schema: JsonObject) -> str:
    said = [f"{key}: {_json(schema[key])}" for key in _SAID if key in schema]
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        said.append(f"further properties: {_json(cast(JsonObject, extra))}")
    description = schema.get("description", "")
    return " ".join(
        part for part in (str(description), f"({'; '.join(said)})" if said else "") if part
    )


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
