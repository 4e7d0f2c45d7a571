"""Decode JSON of model servers: lenient in form, strict in content."""

import json
from typing import NoReturn, TypeVar, cast

import msgspec

from navi.domain.tools.tool_output import clean_json, clean_text
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.language_model import RequestedCall

MAX_OUTPUT_BYTES = 4 * 1024 * 1024  # text, thinking and arguments of one reply together
SHOWN = 200  # characters of a malformed line in an error
MAX_REASON = 100  # characters of why a reply ended: servers say a word

T = TypeVar("T")


def read(line: bytes, kind: type[T]) -> T:
    """A line of JSON as a value of ``kind``.

    Raises:
        ModelFailure: ``protocol``, it is not JSON, or not of that shape.
    """
    try:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError:
            # msgspec refuses lone surrogates, which servers send where a character was cut in two.
            return msgspec.convert(json.loads(line, parse_constant=_refuse), type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ModelFailure("protocol", f"malformed line: {excerpt(line)}") from error


def excerpt(data: bytes | str, limit: int = SHOWN) -> str:
    """An excerpt of what a server sent, for error messages and logs."""
    text = data[: limit * 4].decode(errors="replace") if isinstance(data, bytes) else data
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text[:limit]
    )


def count_of(value: Json) -> int | None:
    """A number of tokens; None where the server sent none, or nonsense."""
    return value if type(value) is int and 0 <= value < 2**53 else None


def reason_of(said: str | None) -> str | None:
    """Why a reply ended, clean and short; None where the server does not say."""
    return clean_text(said[:MAX_REASON]) if said else None


def requested_call(name: Json, arguments: Json) -> RequestedCall:
    """A tool call as the model wrote it, its arguments an object or JSON text.

    Raises:
        ModelFailure: ``protocol``, the object is nested some hundred levels deep.
    """
    if isinstance(arguments, str):
        raw = clean_text(arguments)
        parsed = _parsed(raw)
    else:
        try:
            parsed = clean_json({} if arguments is None else arguments)
        except RecursionError as error:
            raise ModelFailure("protocol", "arguments are nested too deep") from error
        raw = msgspec.json.encode(parsed).decode()
    return RequestedCall(
        name=clean_text(name) if isinstance(name, str) else "",
        arguments=cast(JsonObject, parsed) if isinstance(parsed, dict) else None,
        raw_arguments=raw,
    )


class ReplyLimit:
    """A size limit for a reply; models can fall into endless repetition."""

    def __init__(self) -> None:
        self._left = MAX_OUTPUT_BYTES

    def spend(self, size: int) -> None:
        """Count a piece of ``size`` bytes.

        Raises:
            ModelFailure: ``protocol``, the reply is larger than ``MAX_OUTPUT_BYTES``.
        """
        self._left -= size
        if self._left < 0:
            raise ModelFailure("protocol", f"a reply of more than {MAX_OUTPUT_BYTES} bytes")

    def text(self, text: str) -> str:
        """The text, cleaned and counted."""
        text = clean_text(text)
        self.spend(len(text) if text.isascii() else len(text.encode()))
        return text


def _parsed(raw: str) -> Json:
    if not raw.strip():
        return {}  # how several servers write a call without arguments
    try:
        return clean_json(json.loads(raw, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
