"""Whether a tool is described otherwise than when its owner last let it run.

A server can describe a tool otherwise than yesterday, when somebody looked at it. So a change is noticed,
as ssh notices another host key, and a person asked.
"""

from difflib import unified_diff

import msgspec
from msgspec import Struct

from navi.domain.agent.approvals import shown_preview
from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import Owner
from navi.ports.tools import AllowedTools, ToolDescription

MAX_CHANGE = 2_000  # characters of what is said to have changed


class Described(Struct, frozen=True, kw_only=True):
    """What the model is told of a tool."""

    description: str
    parameters: JsonObject


async def change_of(tool: ToolDescription, owner: Owner, allowed: AllowedTools) -> str | None:
    """What has changed since the owner last allowed a tool; None where nothing has.

    A tool that was never allowed has not changed.
    """
    before = await allowed.last(owner, tool.name)
    if before is None or before.text == as_text(tool):
        return None
    try:
        described = msgspec.json.decode(before.text or "", type=Described)
    except msgspec.DecodeError:
        return "(what it was like then cannot be read)"
    return _difference(described, _described(tool))


def as_text(tool: ToolDescription) -> str:
    """What the model is told of a tool; the same text where that is the same."""
    return msgspec.json.encode(_described(tool), order="sorted").decode()


def _described(tool: ToolDescription) -> Described:
    return Described(description=tool.description, parameters=tool.parameters)


def _difference(before: Described, now: Described) -> str:
    old, new = _lines(before), _lines(now)
    # The server wrote it, and a person reads it: nothing in it may hide.
    difference = "\n".join(unified_diff(old, new, "allowed", "now", n=1, lineterm=""))
    text = shown_preview(difference, {})
    return text if len(text) <= MAX_CHANGE else f"{text[:MAX_CHANGE]}\n[more has changed]"


def _lines(tool: Described) -> list[str]:
    schema = msgspec.json.encode(tool.parameters, order="sorted")
    return [*tool.description.splitlines(), *msgspec.json.format(schema).decode().splitlines()]
