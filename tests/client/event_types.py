"""The types of events for `navi.client`, made from the schema that `GET /schema/events.json` gives.

`python -m tests.client.event_types` writes them.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from navi.domain.vocabulary.events import AUDIT_TYPES, EVENT_TYPES
from navi.http.schemas.event_schema import event_definitions

MODULE = Path(__file__).parents[2] / "navi" / "client" / "events.py"
# What happens in sessions; the audit log is a stream of its own.
SESSIONS = {tag: kind for tag, kind in EVENT_TYPES.items() if tag not in AUDIT_TYPES}
HEAD = '''\
"""Every event as navi sends it, typed; made by `python -m tests.client.event_types` from the schema of events.

An event is a dict, the JSON of the contract, and its ``type`` says what its ``data`` is: a type checker knows the
one after a comparison of the other. Pass over types, fields and values that you do not know.
"""

from typing import Any, Literal, NotRequired, TypedDict

'''
COMMON = '''\
class Envelope(TypedDict):
    """What every event has: its place, its moment, and whose it is."""

    session_id: str
    seq: int
    id: str
    v: int
    at: str
    turn_id: str | None
    subagent_id: str | None

'''


def module() -> str:
    """The text of the module."""
    definitions = event_definitions("{name}")
    parts = [HEAD]
    others = {kind.__name__ for tag, kind in EVENT_TYPES.items() if tag not in SESSIONS}
    for name, schema in _inside_first(definitions):
        if name in others:
            continue
        parts.append(_typed_dict(name, schema))
    parts.append(COMMON)
    for tag, kind in SESSIONS.items():
        parts.append(
            f"class {kind.__name__}Event(Envelope):\n"
            f'    """An event of type ``{tag}``."""\n\n'
            f'    type: Literal["{tag}"]\n'
            f"    data: {kind.__name__}\n\n"
        )
    names = "\n    | ".join(f"{kind.__name__}Event" for kind in SESSIONS.values())
    parts.append(f"Event = (\n    {names}\n)\n")
    return _formatted("\n".join(parts))


def _typed_dict(name: str, schema: dict[str, Any]) -> str:
    first = schema.get("description", "").split("\n\n")[0]
    words = " ".join(first.split()) or f"The data of {name}."
    required = schema.get("required", ())
    fields = [
        f"    {key}: {_hint(part) if key in required else f'NotRequired[{_hint(part)}]'}"
        for key, part in schema.get("properties", {}).items()
    ]
    return f'class {name}(TypedDict):\n    """{words}"""\n\n' + "\n".join(fields) + "\n"


def _hint(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(name)}:
            return name
        case {"anyOf": [*variants]}:
            return " | ".join(_hint(variant) for variant in variants)
        case {"enum": [*values]}:
            return f"Literal[{', '.join(repr(value) for value in values)}]"
        case {"type": "array", "items": _}:
            return f"list[{_hint(schema['items'])}]"
        case {"type": "object"}:
            return "dict[str, Any]"
        case {"type": str(name)}:
            plain = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
            return plain.get(name, "None")
        case _:
            return "Any"


def _inside_first(definitions: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What others are made of comes before them."""
    ordered: dict[str, dict[str, Any]] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for inner in definitions:
                if inner != name and f"'$ref': '{inner}'" in str(definitions[name]):
                    add(inner)
            ordered[name] = definitions[name]

    for name in definitions:
        add(name)
    return list(ordered.items())


def _formatted(text: str) -> str:
    """As the formatter of this project writes it."""
    ruff = [Path(sys.executable).with_name("ruff"), "format", "--stdin-filename", MODULE, "-"]
    return subprocess.run(
        ruff, input=text.encode(), capture_output=True, check=True
    ).stdout.decode()


if __name__ == "__main__":
    MODULE.write_text(module())
