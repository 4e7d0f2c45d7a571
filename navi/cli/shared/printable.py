"""Sanitise text of models, tools and users for a terminal."""

import re
import shutil
from collections.abc import Mapping

# A terminal obeys escape sequences, whoever wrote them: a file that a tool reads must not retitle
# the window or write into the clipboard.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without control characters, except line breaks and tabs."""
    return _CONTROL.sub("", text)


def one_line(text: str, *, width: int) -> str:
    """The beginning of a text on one line of at most ``width`` characters."""
    line = " ".join(printable(text).split())
    if len(line) <= width:
        return line
    return f"{line[: width - 1]}…" if width > 0 else ""


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
