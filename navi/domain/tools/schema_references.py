"""References within a JSON Schema: follow one, or write all of them out."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from navi.domain.vocabulary.events import Json, JsonObject

MAX_CHAIN = 32  # references that lead to the next one

Schema: TypeAlias = Mapping[str, Json]

# Their values are data, not schemas: what looks like a reference in them is none.
DATA = frozenset(("const", "enum", "default", "examples"))
# Their values are schemas by names: a property may be called as a keyword is.
NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))

_DEFINITIONS = ("$defs", "definitions")
_PREFIXES = tuple(f"#/{name}/" for name in _DEFINITIONS)
_NOT_WRITTEN = frozenset(("$ref", "$dynamicRef", "$recursiveRef", *_DEFINITIONS))


class SchemaTooLarge(ValueError):
    """A schema has too many parts with its references written out."""


def resolved(schema: JsonObject, root: Schema) -> JsonObject:
    """A schema with what its reference, if it is one to a definition, leads to.

    What stands beside a reference wins.
    """
    for _ in range(MAX_CHAIN):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith(_PREFIXES):
            return schema
        target = _target(reference, root)
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**(cast(JsonObject, target) if isinstance(target, dict) else {}), **rest}
    return {}


def write_out(
    schema: Json,
    root: Schema,
    *,
    depth: int,
    parts: int,
    instead: Callable[[str], JsonObject],
) -> Json:
    """A schema with the references in it written out, without its definitions.

    Args:
        root: where its references lead.
        depth: levels, a reference being one; any value fits what is deeper.
        parts: how many values it may have; those of ``default`` and the like do not count.
        instead: what is written for a reference that is within itself, or leads elsewhere.

    Raises:
        SchemaTooLarge: it has more parts: one that refers to another twice doubles with every level.
    """
    return _Written(root, parts, instead).out(schema, (), depth)


def _target(reference: str, root: Schema) -> Json:
    """What a JSON pointer within the schema (RFC 6901) leads to; None where that is elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    at: Json = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, Mapping):
            return None
        at = cast(Schema, at).get(key)
    return at


class _Written:
    def __init__(self, root: Schema, parts: int, instead: Callable[[str], JsonObject]) -> None:
        self._root = root
        self._left = parts
        self._instead = instead

    def out(self, schema: Json, inside: tuple[str, ...], depth: int) -> Json:
        """The schema, which stands in the targets of the references ``inside``."""
        self._left -= 1
        if self._left < 0:
            raise SchemaTooLarge("with its references written out, its schema has too many parts")
        if isinstance(schema, list):
            return [self.out(part, inside, depth) for part in cast(list[Json], schema)]
        if not isinstance(schema, dict):
            return schema
        if depth == 0:
            return {}
        named = cast(JsonObject, schema)
        written: JsonObject = {}
        reference = named.get("$ref")
        if isinstance(reference, str):
            written = self._referred(reference, inside, depth)
        for key, value in named.items():
            if key in _NOT_WRITTEN:
                continue
            if key in DATA:
                written[key] = value
            elif key in NAMED and isinstance(value, dict):
                parts = cast(JsonObject, value).items()
                written[key] = {name: self.out(part, inside, depth - 1) for name, part in parts}
            else:
                written[key] = self.out(value, inside, depth - 1)
        return written

    def _referred(self, reference: str, inside: tuple[str, ...], depth: int) -> JsonObject:
        target = None if reference in inside else _target(reference, self._root)
        if not isinstance(target, dict):
            return dict(self._instead(reference))
        return cast(JsonObject, self.out(target, (*inside, reference), depth - 1))
