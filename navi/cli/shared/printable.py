"""Sanitise text of models, tools and users for a terminal."""

import re
import shutil
from collections.abc import Mapping
from unicodedata import combining, east_asian_width

# A terminal obeys escape sequences, whoever wrote them: a file that a tool reads must not retitle
# the window or write into the clipboard.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without control characters, except line breaks and tabs."""
    return _CONTROL.sub("", text)


def as_utf8(text: str) -> str:
    """What somebody typed or gave as an argument, with U+FFFD for each byte that is no UTF-8.

    Python hands such bytes over as lone surrogates (PEP 383), which no JSON takes.
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def one_line(text: str, *, width: int) -> str:
    """The beginning of a text on one line of at most ``width`` columns."""
    return cut(" ".join(printable(text).split()), width)


def cut(line: str, width: int) -> str:
    """The beginning of a line, at most ``width`` columns of it; Chinese and emoji take two each."""
    if columns(line) <= width:
        return line
    if width <= 0:
        return ""
    kept, room = "", width - 1
    for character in line:
        room -= columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )


def come_back(session_id: str) -> str:
    """The command that goes on in a session."""
    return f"navi chat --session {session_id}"


def output_width(environment: Mapping[str, str], *, watched: bool) -> int | None:
    """How many characters a line of output may have; None where nothing is cut, as in a pipe.

    Args:
        watched: whether a person looks at the output on a terminal.
    """
    columns = environment.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if watched else None


def takes_colour(environment: Mapping[str, str]) -> bool:
    """Whether a terminal is to get colours (no-color.org); a dumb one has none."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
