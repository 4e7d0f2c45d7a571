"""What a tool returned, as the model reads it."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec


class NotJson(Exception):
    """A result that is neither text nor JSON; the message is for the user who wrote the tool."""


def as_text(result: object) -> str:
    """Text as it is, all else as JSON.

    Raises:
        NotJson: it has no form in JSON. Bytes have none that a model could read.
    """
    if isinstance(result, str):
        return result
    kind = type(result)
    if kind in (bytes, bytearray, memoryview):
        raise NotJson(_expected(kind.__name__, "decode them"))
    if inspect.iscoroutine(result):
        result.close()  # else Python warns of it in the log, at some later call
        raise NotJson(_expected(kind.__name__, "it was not awaited"))
    try:
        return msgspec.json.encode(_whole(result)).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(_expected(kind.__name__, str(error))) from error


def _whole(value: object) -> object:
    """A value with what dataclasses in it left to their defaults.

    msgspec makes one from arguments without setting these, and then leaves them out of its JSON.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
        # One that __init__ does not take may not be set.
        return {name: _whole(getattr(value, name)) for name in names if hasattr(value, name)}
    match value:
        case dict():
            return {key: _whole(item) for key, item in cast(Mapping[object, object], value).items()}
        case list() | tuple():
            return [_whole(item) for item in cast(Sequence[object], value)]
        case _:
            return value


def _expected(kind: str, why: str) -> str:
    return (
        f"the tool ran to its end, but what it returned is neither text nor JSON ({kind}: {why});"
        " a tool returns a str, or numbers, lists, dicts and dataclasses of them"
    )
