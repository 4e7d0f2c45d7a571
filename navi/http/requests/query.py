"""Read query parameters and headers; each error names the one that is wrong."""

import re

from litestar.datastructures import Headers, MultiDict

from navi.domain.vocabulary.errors import BadInput
from navi.http.requests.validation import MAX_LIMIT, MAX_SEQ

_WHOLE = re.compile(r"[0-9]{1,16}")

Query = MultiDict[str]


def seq_in(query: Query, name: str) -> int | None:
    """A parameter that is a seq; None where it is not given.

    Raises:
        BadInput: it is malformed or given twice.
    """
    return _whole_in(query, name, lowest=0, highest=MAX_SEQ)


def seq_in_header(headers: Headers, name: str) -> int | None:
    """A header that is a seq; None where it is not sent, or empty.

    Raises:
        BadInput: it is malformed or sent twice.
    """
    values: list[str] = headers.getall(name, [])
    if len(values) > 1:
        raise BadInput(name, "is sent more than once")
    text = values[0].strip() if values else ""
    return _whole(name, text, lowest=0, highest=MAX_SEQ) if text else None


def limit_in(query: Query) -> int | None:
    """The parameter ``limit``; None for all.

    Raises:
        BadInput: it is malformed or given twice.
    """
    return _whole_in(query, "limit", lowest=1, highest=MAX_LIMIT)


def yes_or_no_in(query: Query, name: str, *, default: bool) -> bool:
    """A parameter that is ``true`` or ``false``.

    Raises:
        BadInput: it is neither, or given twice.
    """
    text = text_in(query, name)
    match None if text is None else text.lower():  # Python's clients write `True`
        case None:
            return default
        case "true":
            return True
        case "false":
            return False
        case _:
            raise BadInput(name, "is neither true nor false")


def text_in(query: Query, name: str) -> str | None:
    """A parameter as it stands; None where it is not given.

    Raises:
        BadInput: it is given twice.
    """
    values: list[str] = query.getall(name, [])
    if len(values) > 1:
        raise BadInput(name, "is given more than once")
    return values[0] if values else None


def _whole_in(query: Query, name: str, *, lowest: int, highest: int) -> int | None:
    text = text_in(query, name)
    return None if text is None else _whole(name, text, lowest=lowest, highest=highest)


def _whole(name: str, text: str, *, lowest: int, highest: int) -> int:
    if _WHOLE.fullmatch(text) is None or not lowest <= int(text) <= highest:
        raise BadInput(name, f"has to be a whole number from {lowest} to {highest}")
    return int(text)
