"""One JSON Schema of the envelope, by type, out of the classes of the events."""

import re
from typing import Any

import msgspec

from navi.domain.log.erasure import ERASED
from navi.domain.vocabulary.events import EVENT_TYPES, JsonObject

UUID = {"type": "string", "format": "uuid"}
SUBAGENT_ID = {"type": "string", "pattern": "^subagent_[0-9a-f]{12}$"}
VERDICTS = ("direct", "reflect", "plan", "malformed", "failed")

_HASH = f"^([0-9a-f]{{64}}|{re.escape(ERASED)})$"

ENVELOPE: JsonObject = {
    "type": "object",
    "required": ["session_id", "seq", "id", "type", "v", "at", "turn_id", "subagent_id", "data"],
    "properties": {
        "session_id": UUID,
        "seq": {"type": "integer", "minimum": 1, "description": "1, 2, 3, ... within the session"},
        "id": UUID,
        "type": {"type": "string"},
        "v": {"type": "integer", "minimum": 1, "description": "version of the type's data"},
        "at": {"type": "string", "format": "date-time"},
        "turn_id": {"anyOf": [UUID, {"type": "null"}]},
        "subagent_id": {"anyOf": [SUBAGENT_ID, {"type": "null"}]},
        "data": {"type": "object"},
    },
}


def event_schema() -> JsonObject:
    """JSON Schema 2020-12 of an envelope; one of a type that is not in it passes, as readers must."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "navi event envelope",
        **envelope_schema("#/$defs/{name}"),
        "$defs": event_definitions("#/$defs/{name}"),
    }


def envelope_schema(ref_template: str) -> JsonObject:
    """The envelope, whose ``data`` is that of its ``type``."""
    by_type = [
        {
            "if": {
                "properties": {"type": {"const": name}, "v": {"const": kind.V}},
                "required": ["type", "v"],
            },
            "then": {
                "properties": {"data": {"$ref": ref_template.format(name=kind.__name__)}},
            },
        }
        for name, kind in EVENT_TYPES.items()
    ]
    return {**ENVELOPE, "allOf": by_type}


def event_definitions(ref_template: str) -> dict[str, Any]:
    """The data of every type, by the name of its class, and what it is made of."""
    _, definitions = msgspec.json.schema_components(EVENT_TYPES.values(), ref_template=ref_template)
    return strict(definitions)


def strict(definitions: dict[str, Any]) -> dict[str, Any]:
    """Schemas of classes with what the classes' types do not say but every value keeps to.

    Numbers are counts, durations, sizes and places: none is negative. What is called a hash is one,
    or what erasing it left.
    """
    for definition in definitions.values():
        for name, schema in definition.get("properties", {}).items():
            for branch in (schema, *schema.get("anyOf", ())):
                branch.update(_rule(name, branch.get("type")))
    return definitions


def _rule(name: str, kind: str | None) -> JsonObject:
    match kind:
        case "integer":
            return {"minimum": 0}
        case "string" if name.endswith("sha256"):
            return {"pattern": _HASH}
        case "string" if name == "verdict":
            return {"enum": list(VERDICTS)}
        case "string" if name in ("session_id", "turn_id"):
            return {"format": "uuid"}
        case _:
            return {}
