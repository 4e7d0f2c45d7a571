"""Search files of a workspace by regular expression, in a process that can be killed.

A regular expression can run for ever, holds the interpreter while it does, and cannot be stopped from
within; a process can be killed. Run as a program it reads a ``Search`` from standard input and writes
what it found to standard output.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from navi.adapters.tools.workspace import MAX_ENTRIES, PathForbidden, Workspace
from navi.domain.tools.tool_output import clean_text

MAX_MATCHES = 200
MAX_CHARACTERS = 256 * 1024 * 1024  # of all files that are looked through
LINE_BYTES = 1024 * 1024  # a longer line is looked through in pieces of this size
EXCERPT = 120  # characters shown on either side of a match
SOFT_SECONDS = 8.0  # then what was found so far is the answer
TOO_MANY = f"there are more files: not all was looked at, only the first {MAX_ENTRIES:,} entries"
HARD_SECONDS = 10.0  # then the kernel ends the process: one match attempt took it all


class Search(Struct, frozen=True, kw_only=True):
    """What is looked for; ``pattern`` is a regular expression of Python's ``re``."""

    workspace: str
    path: str
    pattern: str
    ignore_case: bool


class Answer(Struct, frozen=True, kw_only=True):
    """What was found, as ``path:line: text``, and what was left out."""

    lines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    forbidden: str | None = None
    error: str | None = None


def find_matches(search: Search) -> Answer:
    """Look through the files; ends within ``SOFT_SECONDS`` unless one match attempt takes longer."""
    deadline = time.monotonic() + SOFT_SECONDS
    found: list[str] = []
    skipped: list[str] = []
    not_all: list[str] = []
    looked_at = 0
    try:
        pattern = re.compile(search.pattern, re.IGNORECASE if search.ignore_case else 0)
        with Workspace(Path(search.workspace)) as session:
            for line in _lines(session, search.path, skipped, lambda: not_all.append(TOO_MANY)):
                looked_at += len(line.text)
                if match := pattern.search(line.text):
                    where = f"{clean_text(line.path)}:{line.number}"
                    found.append(f"{where}: {_excerpt(line.text, match)}")
                if len(found) >= MAX_MATCHES:
                    return Answer(lines=tuple(found), remarks=("there may be more matches",))
                if looked_at > MAX_CHARACTERS or time.monotonic() > deadline:
                    why = f"stopped in {clean_text(line.path)}: there is too much to look through at once"
                    return Answer(lines=tuple(found), remarks=(why,))
    except PathForbidden as error:
        return Answer(forbidden=str(error))
    except OSError as error:
        return Answer(error=f"{search.path!r}: {error.strerror}")
    except (re.error, OverflowError, RecursionError) as error:
        return Answer(error=f"{search.pattern!r} is not a regular expression: {error}")
    remarks = (f"{len(skipped)} binary or unreadable files were passed over",) if skipped else ()
    return Answer(lines=tuple(found), remarks=(*remarks, *not_all[:1]))


def main() -> None:
    """Answer the search on standard input."""
    # The default action of SIGALRM ends the process even in the middle of a match, and even when
    # nobody is left who could kill it.
    signal.setitimer(signal.ITIMER_REAL, HARD_SECONDS)
    search = msgspec.json.decode(sys.stdin.buffer.read(), type=Search)
    sys.stdout.buffer.write(msgspec.json.encode(find_matches(search)))


class _Line(NamedTuple):
    path: str
    number: int
    text: str


def _lines(
    session: Workspace, path: str, skipped: list[str], not_all: Callable[[], None]
) -> Generator[_Line, None, None]:
    for entry in session.files(path, not_all=not_all):
        try:
            descriptor = session.open_file(entry.path)
        except (PathForbidden, OSError):
            skipped.append(entry.path)
            continue
        with os.fdopen(descriptor, "rb") as file:
            if b"\0" in file.read(8_192):
                skipped.append(entry.path)
                continue
            file.seek(0)
            number = 0
            while raw := file.readline(LINE_BYTES):
                number += 1
                yield _Line(entry.path, number, raw.decode("utf-8", "replace").rstrip("\r\n"))


def _excerpt(line: str, match: re.Match[str]) -> str:
    start, end = max(0, match.start() - EXCERPT), min(len(line), match.end() + EXCERPT)
    end = min(end, start + 4 * EXCERPT)
    return f"{'…' * (start > 0)}{line[start:end].strip()}{'…' * (end < len(line))}"


if __name__ == "__main__":
    main()
