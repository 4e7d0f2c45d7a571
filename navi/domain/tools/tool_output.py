"""Sanitise what models and tools give for the log, and bound tool output."""

from math import isfinite
from typing import cast

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.events import Json, JsonObject

OWN_DIRECTORY = ".navi"  # navi's own files in a workspace: kept outputs, scratchpad
MAX_OUTPUT_BYTES = 256 * 1024  # of UTF-8
# An envelope is at most 768 KiB, and JSON writes a control character in 6 bytes.
MAX_OUTPUT_JSON_BYTES = 640 * 1024
ESCAPED_BYTES = 6  # the longest way in which JSON writes one byte of UTF-8
REMARK_BYTES = 512  # room for the word about what is missing


class Output(Struct, frozen=True, kw_only=True):
    """What a tool gave, as it goes into the log.

    Attributes:
        text: clean and within the limits.
        whole: the clean text of full length, where ``text`` is only its beginning.
    """

    text: str
    whole: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether something is missing from ``text``."""
        return self.whole is not None


def clean_text(text: str) -> str:
    """The text without what Postgres and UTF-8 refuse: NUL and lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def clean_json(value: Json) -> Json:
    """The value as the log can keep it: all its strings, keys too, as ``clean_text`` has them.

    A number such as ``1e999``, which JSON may say and no double holds, is null: the log would say so.

    Raises:
        RecursionError: it is nested some hundred levels deep.
    """
    match value:
        case str():
            return clean_text(value)
        case dict():
            items = cast(JsonObject, value).items()
            return {clean_text(key): clean_json(item) for key, item in items}
        case list():
            return [clean_json(item) for item in cast(list[Json], value)]
        case float() if not isfinite(value):
            return None
        case _:
            return value


def bound_output(output: str) -> Output:
    """The output, cleaned; its beginning alone where it is too long for an event."""
    text = clean_text(output)
    raw = text.encode()
    if len(raw) <= MAX_OUTPUT_BYTES and _json_bytes(text) <= MAX_OUTPUT_JSON_BYTES:
        return Output(text=text)
    beginning = _cut(raw, MAX_OUTPUT_BYTES - REMARK_BYTES)
    if _json_bytes(beginning) > MAX_OUTPUT_JSON_BYTES - REMARK_BYTES * ESCAPED_BYTES:
        beginning = _cut(raw, MAX_OUTPUT_JSON_BYTES // ESCAPED_BYTES - REMARK_BYTES)
    return Output(text=beginning, whole=text)


def with_remark(output: Output, *, kept_as: str | None) -> str:
    """The text as the model reads it, which is told what is missing and where the whole is.

    Args:
        kept_as: path of the file with the whole, relative to the session's directory; None where it
            could not be kept.
    """
    if output.whole is None:
        return output.text
    shown, total = len(output.text.encode()), len(output.whole.encode())
    where = (
        f"the whole output is in the file {kept_as}"
        if kept_as is not None
        else "the rest could not be kept"
    )
    return f"{output.text}\n\n[cut: the first {shown:,} of {total:,} bytes; {where}]"


def _cut(raw: bytes, size: int) -> str:
    # "ignore" drops the character that the cut went through, and the input is valid otherwise.
    return raw[:size].decode("utf-8", "ignore")


def _json_bytes(text: str) -> int:
    return len(msgspec.json.encode(text))
