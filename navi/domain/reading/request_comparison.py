"""What differs between two requests to model servers: what the model saw differently."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import cast

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.events import Json, JsonObject

MESSAGES, TOOLS = "messages", "tools"


class RequestDifference(Struct, frozen=True, kw_only=True):
    """Something that only one request has, or that they have differently.

    Attributes:
        part: ``messages``, ``tools``, or another key of the body.
        name: the role of a message, the name of a tool, an option; else empty.
        before, after: None on the side that has nothing there.
    """

    part: str
    name: str
    before: Json
    after: Json


class RequestComparison(Struct, frozen=True, kw_only=True):
    """Two requests side by side; ``same_messages`` is how many messages both have."""

    same_messages: int
    differences: tuple[RequestDifference, ...]


def compare_requests(before: JsonObject, after: JsonObject) -> RequestComparison:
    """What of two bodies differs; messages are aligned by what they say, tools by name."""
    same, messages = _messages(_list(before, MESSAGES), _list(after, MESSAGES))
    found = [*messages, *_named(TOOLS, _by_name(before), _by_name(after))]
    for key in dict.fromkeys((*before, *after)):
        one, other = before.get(key), after.get(key)
        if key in (MESSAGES, TOOLS) or one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            found += _named(key, cast(JsonObject, one), cast(JsonObject, other))
        else:
            found.append(RequestDifference(part=key, name="", before=one, after=other))
    return RequestComparison(same_messages=same, differences=tuple(found))


def message_text(message: Json) -> str:
    """A message of a body on one side of a comparison: its words, and all else as JSON."""
    if not isinstance(message, dict):
        return msgspec.json.encode(message).decode()
    fields = cast(JsonObject, message)
    content = fields.get("content")
    rest = {k: v for k, v in fields.items() if k not in ("role", "content") and v}
    words = content if isinstance(content, str) else msgspec.json.encode(content or "").decode()
    parts = (words, msgspec.json.encode(rest).decode() if rest else "")
    return " ".join(part for part in parts if part and part != '""')


def _messages(before: Sequence[Json], after: Sequence[Json]) -> tuple[int, list[RequestDifference]]:
    keys = [[msgspec.json.encode(one, order="sorted") for one in side] for side in (before, after)]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    same = 0
    found: list[RequestDifference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            same += end - start
        else:
            found += _versions(before[start:end], after[other_start:other_end])
    return same, found


def _versions(olds: Sequence[Json], news: Sequence[Json]) -> list[RequestDifference]:
    """Stretches that have nothing in common: messages of one role are taken for versions of one."""
    roles = [[_role(one) for one in side] for side in (olds, news)]
    matcher = SequenceMatcher(None, *roles, autojunk=False)
    found: list[RequestDifference] = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for old, new in zip_longest(olds[start:end], news[other_start:other_end]):
            if tag == "equal":
                found.append(_message(old, new))
                continue
            found += [_message(old, None)] if old is not None else []
            found += [_message(None, new)] if new is not None else []
    return found


def _message(old: Json, new: Json) -> RequestDifference:
    name = _role(new if old is None else old)
    return RequestDifference(part=MESSAGES, name=name, before=old, after=new)


def _named(
    part: str, before: Mapping[str, Json], after: Mapping[str, Json]
) -> list[RequestDifference]:
    return [
        RequestDifference(part=part, name=name, before=before.get(name), after=after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


def _by_name(body: JsonObject) -> dict[str, Json]:
    """The tools of a body by name, in whichever of the usual shapes."""
    tools = [cast(JsonObject, one) for one in _list(body, TOOLS) if isinstance(one, dict)]
    described = [cast(JsonObject, tool.get("function", tool)) for tool in tools]
    return {str(tool.get("name", "")): tool for tool in described}


def _list(body: JsonObject, key: str) -> list[Json]:
    value = body.get(key)
    return cast(list[Json], value) if isinstance(value, list) else []


def _role(message: Json) -> str:
    return str(cast(JsonObject, message).get("role", "")) if isinstance(message, dict) else ""
