"""Tool calls that a model wrote as text, in the forms that models were trained on.

Servers whose template knows a model's form take such calls out of the text; with others, and with weak
models, they come as the answer. They count where the model was offered that very tool, gives it an
object of arguments, and says nothing else.
"""

import re
from collections.abc import Collection
from typing import cast

from msgspec import Struct

from navi.domain.tools.loose_json import NotJson, read_loose, read_value
from navi.domain.vocabulary.events import Json, JsonObject

MAX_HELD = 128 * 1024  # characters: a text that goes on for longer is shown, and stays text
MAX_CALLS = 32
MAX_HEAD = 1_000  # characters in which a text has to look like a call

OPENINGS = ("<tool_call>", "<function_call>", "<|python_tag|>", "<|tool_call|>", "[TOOL_CALLS]")
CLOSINGS = (
    *("</tool_call>", "</function_call>", "<|/tool_call|>", "[/TOOL_CALLS]"),
    *("<|eom_id|>", "<|eot_id|>", "<|im_end|>", "</s>", "```"),
)
_NAMED = "<function="  # and the name, then ">", the arguments, "</function>"
_KEYS = ("name", "arguments", "parameters", "function", "type", "id", "index", "tool_calls")
_BETWEEN = (*OPENINGS, *CLOSINGS, "</function>", ",", ";")

_FENCE = re.compile(r"```[a-z_]*\s*\n")
_FENCE_BEGUN = re.compile(r"`{1,2}\Z|```[a-z_]*[ \t]*\Z")
_FIRST_KEY = re.compile(r"(?:\[\s*)?\{\s*(?:[\"']?(?P<key>[A-Za-z_]*))?")
_FIRST_NAME = re.compile(
    r"(?:\[\s*)?\{\s*[\"']?name[\"']?\s*:\s*(?:[\"'](?P<name>[^\"']*)(?P<end>[\"'])?)?"
)


class WrittenCall(Struct, frozen=True):
    """A call as it was written: which tool, and with what."""

    name: str
    arguments: JsonObject


def written_calls(text: str, offered: Collection[str]) -> tuple[WrittenCall, ...]:
    """The calls that a text consists of; empty where it is, or has, anything else.

    Args:
        offered: names of the tools that the model was offered.
    """
    if len(text) > MAX_HELD:
        return ()
    rest = text.strip()
    values: list[Json] = []
    try:
        while rest := _without_marks(rest):
            if rest.startswith(_NAMED):
                name, _, rest = rest.removeprefix(_NAMED).partition(">")
                arguments, end = read_value(rest, 0)
                values.append({"name": name.strip(), "arguments": arguments})
            else:
                value, end = _one_value(rest)
                values.extend(cast(list[Json], value) if isinstance(value, list) else [value])
            if len(values) > MAX_CALLS:
                return ()
            rest = rest[end:]
    except NotJson:
        return ()
    calls = [call for value in values for call in _calls_of(value)]
    whole = all(isinstance(call, WrittenCall) and call.name in offered for call in calls)
    return tuple(call for call in calls if isinstance(call, WrittenCall)) if whole else ()


class HeldCalls:
    """Whether the text of an answer may still be tool calls, as it comes piece by piece.

    What it says depends on the text alone and not on how that was cut into pieces.

    Args:
        offered: names of the tools that the model was offered.
    """

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = tuple(offered)
        self._head: str | None = ""  # None when it is known how the text begins
        self._between = ""  # outside of values: what has not become a mark yet
        self._quote = ""
        self._escaped = False
        self._depth = 0
        self._length = 0
        self._possible = bool(self._offered)

    def take(self, text: str) -> bool:
        """Whether it may, with another piece of the text."""
        for character in text:
            if not self._possible:
                break
            self._length += 1
            self._possible = self._length <= MAX_HELD and self._goes_on(character)
        return self._possible

    def _goes_on(self, character: str) -> bool:
        if self._head is not None:
            begins = self._head = (self._head + character).lstrip()
            known = _begins(begins, self._offered)
            if known is None:
                return len(begins) <= MAX_HEAD
            if not known:
                return False
            self._head = None
            return all(self._scans(c) for c in _after_fence(begins))
        return self._scans(character)

    def _scans(self, character: str) -> bool:
        if self._quote:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == self._quote:
                self._quote = ""
            return True
        if self._depth:
            self._depth += (character in "{[") - (character in "}]")
            if character == '"':
                self._quote = character
            return True
        self._between = (self._between + character).lstrip()
        if self._between.startswith(_NAMED):
            if character == ">":
                self._between = ""
            return len(self._between) <= MAX_HEAD
        if self._between in ("{", "["):
            if self._between == "{":  # a "[" may begin a mark as well
                self._depth, self._between = 1, ""
            return True
        if self._between in _BETWEEN:
            self._between = ""
            return True
        if self._between.startswith("[") and not _is_beginning(self._between, _BETWEEN):
            opened, self._between, self._depth = self._between[1:], "", 1
            return all(self._scans(c) for c in opened)
        return not self._between or _is_beginning(self._between, (*_BETWEEN, _NAMED))


def _begins(text: str, offered: Collection[str]) -> bool | None:
    """Whether a text begins like calls; None where more of it has to come."""
    if not text or _FENCE_BEGUN.match(text):
        return None
    marked = (*OPENINGS, _NAMED)
    if any(text.startswith(mark) for mark in marked):
        return True
    inner = _after_fence(text).lstrip()
    if not inner or _is_beginning(text, marked) or _is_beginning(inner, marked):
        return None
    if any(inner.startswith(mark) for mark in marked):
        return True
    if inner[0] not in "{[":
        return False
    key = _FIRST_KEY.match(inner)
    if key is None:
        return None if not inner[1:].strip() else False
    if key.end() == len(inner):  # the key, if it has begun, may go on
        begun = key["key"] or ""
        return None if any(known.startswith(begun) for known in _KEYS) else False
    if not key["key"]:
        return False
    if key["key"] != "name":
        return key["key"] in _KEYS
    named = _FIRST_NAME.match(inner)
    if named is None or named["name"] is None:
        after = inner[key.end() :].strip("\"' \t\r\n")
        return None if after in ("", ":") else False
    if named["end"]:
        return named["name"] in offered
    return None if any(name.startswith(named["name"]) for name in offered) else False


def _after_fence(text: str) -> str:
    fence = _FENCE.match(text)
    return text[fence.end() :] if fence else text


def _is_beginning(text: str, marks: Collection[str]) -> bool:
    return any(mark.startswith(text) for mark in marks)


def _without_marks(text: str) -> str:
    """A text without the marks that it begins with."""
    while True:
        rest = _after_fence(text.strip())
        for mark in _BETWEEN:
            rest = rest.removeprefix(mark)
        if rest == text:
            return text
        text = rest


def _one_value(text: str) -> tuple[Json, int]:
    """The object or list that a text begins with, and where it ends."""
    if text[0] not in "{[":
        raise NotJson("neither an object nor a list")
    return read_value(text, 0)


def _calls_of(value: Json) -> list[WrittenCall | None]:
    """The calls of an object; None for what is no call."""
    if not isinstance(value, dict):
        return [None]
    given = cast(JsonObject, value)
    if not given or not set(given) <= set(_KEYS) or given.get("type", "function") != "function":
        return [None]
    if set(given) == {"tool_calls"} and isinstance(given["tool_calls"], list):
        inner = cast(list[Json], given["tool_calls"])
        return [call for one in inner for call in _calls_of(one)] or [None]
    function = given.get("function")
    if isinstance(function, dict):
        return _calls_of(cast(JsonObject, function)) if "name" not in given else [None]
    name = given.get("name", function)
    arguments = given.get("arguments", given.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = read_loose(arguments)
        except NotJson:
            arguments = None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return [None]
    return [WrittenCall(name, cast(JsonObject, arguments))]
