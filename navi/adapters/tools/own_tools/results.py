"""What a tool returned, as the model reads it."""

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
    try:
        return msgspec.json.encode(result).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(_expected(kind.__name__, str(error))) from error


def _expected(kind: str, why: str) -> str:
    return (
        f"the tool ran to its end, but what it returned is neither text nor JSON ({kind}: {why});"
        " a tool returns a str, or numbers, lists, dicts and dataclasses of them"
    )
