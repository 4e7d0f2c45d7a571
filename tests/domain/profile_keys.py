"""The tables of a profile's keys, made from the code: in `docs/profiles.md` and beside the example of a profile.

`python -m tests.domain.profile_keys` writes them.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec

from navi.adapters.tools.own_tools.docstrings import parse_docstring
from navi.domain.agent.profile import Profile

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "profiles.md"
BESIDE_EXAMPLE = ROOT / "navi" / "bootstrap" / "examples" / "keys.md"
BEGIN, END = "<!-- made by `python -m tests.domain.profile_keys` -->\n", "<!-- end -->"


def table() -> str:
    """Every key with its type, its default and what it is for."""
    section = inspect.getdoc(Profile) or ""
    _, described = parse_docstring(section.replace("Attributes:", "Args:"))
    _, definitions = msgspec.json.schema_components((Profile,), ref_template="{name}")
    properties: dict[str, Any] = definitions["Profile"]["properties"]
    rows = [
        f"| `{field.encode_name}` | {_kind(properties[field.name])} | {_default(field.default)} | {described[field.name]} |"
        for field in msgspec.structs.fields(Profile)
    ]
    return "\n".join(["| key | type | default | what |", "|---|---|---|---|", *rows, ""])


def beside_example(keys: str) -> str:
    """What stands beside the example: JSON has no room for comments."""
    return (
        "# What the keys of config.json are for\n\n"
        "All of them may be left out: a `config.json` of `{}` is good. This file is for reading; navi does not.\n\n"
        f"{keys}"
    )


def page_with(keys: str) -> str:
    """The page with a table of keys in its place."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + keys + END + after


def _default(value: object) -> str:
    if value is None:
        return "`null`"
    return f"`{msgspec.json.encode(value).decode()}`"


def _kind(schema: dict[str, Any]) -> str:
    """A JSON Schema in a few words."""
    match schema:
        case {"anyOf": [*variants]}:
            return " or ".join(_kind(v) for v in variants if v != {"type": "null"})
        case {"type": "array", "items": {"$ref": _}}:
            return "list of rules"
        case {"type": "array", "items": items}:
            return f"list of {re.sub('^string', 'strings', _kind(items))}"
        case {"type": ("integer" | "number") as kind}:
            bounds = [
                f"{words} {schema[key]:,}"
                for key, words in (("minimum", "from"), ("maximum", "to"))
                if key in schema
            ]
            return " ".join([kind, *bounds])
        case _:
            kind: str = schema["type"]
            return {"boolean": "true or false"}.get(kind, kind)


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
    BESIDE_EXAMPLE.write_text(beside_example(table()))
