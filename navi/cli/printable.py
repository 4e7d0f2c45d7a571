"""Text of models, tools and users made fit for a terminal."""

import re

# A terminal obeys escape sequences, whoever wrote them: a file that a tool reads must not retitle
# the window or write into the clipboard.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without control characters, except line breaks and tabs."""
    return _CONTROL.sub("", text)


def one_line(text: str, *, width: int) -> str:
    """The beginning of a text on one line of at most ``width`` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
