"""JSON as weak models write it: single quotes, keys without quotes, commas to spare, Python's words."""

import json
import re
from typing import NoReturn, cast

from navi.domain.tools.tool_output import clean_json
from navi.domain.vocabulary.events import Json

MAX_DEPTH = 64
MAX_LENGTH = 256 * 1024  # characters; longer text is read strictly only

_SPACE = re.compile(r"\s*")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_CONSTANTS: dict[str, Json] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_QUOTES = re.compile(r"\\.", re.DOTALL)
_UNESCAPED = re.compile(r'((?<!\\)(?:\\\\)*)"')


class NotJson(ValueError):
    """A text is no JSON, and nothing that was plainly meant as JSON."""


def read_strict(text: str) -> Json:
    """The value of a JSON text; line ends inside of strings are taken as they stand.

    Its strings are clean as ``clean_text`` has them, escaped or not.

    Raises:
        NotJson: it is something else.
    """
    try:
        # The text was cleaned when it came, but `\ud83d` becomes a lone surrogate only here.
        return clean_json(json.loads(text, strict=False, parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def read_loose(text: str) -> Json:
    """The value of a text that is JSON but for the usual slips.

    What is ambiguous is refused: a quotation mark inside a string of the same marks, text behind the
    value, a value that does not end.

    Raises:
        NotJson: it is something else.
    """
    try:
        return read_strict(text)
    except NotJson:
        if len(text) > MAX_LENGTH:
            raise
        value, end = read_value(text, 0)
        if text[end:].strip():
            raise NotJson("text stands behind the value") from None
        return value


def read_value(text: str, at: int, depth: int = 0) -> tuple[Json, int]:
    """The loosely written value that begins at a place, and where it ends.

    Raises:
        NotJson: none does.
    """
    at = _past_space(text, at)
    begins = text[at : at + 1]
    if depth > MAX_DEPTH or not begins:
        raise NotJson("it does not end, or is nested too deep")
    if begins == "{":
        return _object(text, at + 1, depth)
    if begins == "[":
        return _array(text, at + 1, depth)
    if begins in "\"'":
        return _string(text, at)
    if number := _NUMBER.match(text, at):
        return read_strict(number[0]), number.end()
    if (word := _BARE.match(text, at)) and word[0] in _CONSTANTS:
        return _CONSTANTS[word[0]], word.end()
    raise NotJson(f"no value at {at}")


def _object(text: str, at: int, depth: int) -> tuple[Json, int]:
    found: dict[str, Json] = {}
    while True:
        at = _past_space(text, at)
        if text.startswith("}", at):
            return found, at + 1
        if text[at : at + 1] in ('"', "'"):
            key, at = _string(text, at)
        elif word := _BARE.match(text, at):
            key, at = word[0], word.end()
        else:
            raise NotJson(f"no key at {at}")
        at = _past_space(text, at)
        if not text.startswith(":", at):
            raise NotJson(f"no colon at {at}")
        found[key], at = read_value(text, at + 1, depth + 1)
        at = _past_comma(text, at, "}")


def _array(text: str, at: int, depth: int) -> tuple[Json, int]:
    found: list[Json] = []
    while True:
        at = _past_space(text, at)
        if text.startswith("]", at):
            return found, at + 1
        value, at = read_value(text, at, depth + 1)
        found.append(value)
        at = _past_comma(text, at, "]")


def _string(text: str, at: int) -> tuple[str, int]:
    if double := _DOUBLE.match(text, at):
        return cast(str, read_strict(double[0])), double.end()
    if single := _SINGLE.match(text, at):
        inner = _QUOTES.sub(lambda quote: "'" if quote[0] == "\\'" else quote[0], single[1])
        inner = _UNESCAPED.sub(r"\1\"", inner)
        return cast(str, read_strict(f'"{inner}"')), single.end()
    raise NotJson(f"the string at {at} does not end")


def _past_comma(text: str, at: int, closing: str) -> int:
    at = _past_space(text, at)
    if text.startswith(",", at):
        return at + 1
    if not text.startswith(closing, at):
        raise NotJson(f"no comma at {at}")
    return at


def _past_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space is not None else at


def _refuse(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is not JSON")
