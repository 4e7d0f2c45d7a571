"""What a process of own tools prints: into the server's log, with the name of the tool."""

import asyncio
import os
from collections import deque

import structlog

from navi.adapters.tools.own_tools.marks import MARK
from navi.domain.tools.tool_output import clean_text

MAX_LINE_BYTES = 8 * 1024  # longer ones are cut into pieces
LOGGED_LINES = 200  # of a call; the rest is counted
LAST_LINES, LAST_CHARACTERS = 20, 4_000  # kept for the answer of a call that goes wrong
PIECE_BYTES = 64 * 1024

log = structlog.get_logger()


class Printed:
    """The reading end of what a process prints; whoever has it runs ``read`` and calls ``close``."""

    def __init__(self) -> None:
        self._readable, self.descriptor = os.pipe()
        self._kind, self._name = "", ""
        self._lines = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._ended = ""
        self._news = asyncio.Event()
        self._finished = False

    def started(self) -> None:
        """The process has its end now: the server keeps only its own."""
        os.close(self.descriptor)
        self.descriptor = -1

    def close(self) -> None:
        """Close what ``read`` has not closed already."""
        if self.descriptor >= 0:
            self.started()
        if self._readable >= 0:
            os.close(self._readable)
            self._readable = -1

    async def read(self) -> None:
        """Log what is printed, until nobody is left who could print."""
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._readable, "rb", buffering=0)
        self._readable = -1
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        rest = b""
        try:
            while piece := await reader.read(PIECE_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._line(line)
                while len(rest) > MAX_LINE_BYTES:
                    self._line(rest[:MAX_LINE_BYTES])
                    rest = rest[MAX_LINE_BYTES:]
            self._line(rest)
        finally:
            transport.close()
            self._finished = True
            self._news.set()

    async def last(self, call_id: str | None, *, seconds: float) -> str:
        """The last lines, once all of a call is there; at most so many seconds are waited.

        Args:
            call_id: None where the process has ended, and will mark nothing any more.
        """
        try:
            async with asyncio.timeout(seconds):
                while not self._finished and self._ended != call_id:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # something else that the tool started holds the pipe, or it was closed
        return "\n".join(self._last)[-LAST_CHARACTERS:]

    def _line(self, raw: bytes) -> None:
        if raw.startswith(MARK):
            kind, _, name = raw.removeprefix(MARK).decode("utf-8", "replace").partition(" ")
            self._mark(kind, name)
        elif raw.strip():
            text = clean_text(raw[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip())
            self._last.append(text)
            self._lines += 1
            if self._lines <= LOGGED_LINES:
                log.info("own_tool_printed", **{self._kind or "process": self._name}, text=text)

    def _mark(self, kind: str, name: str) -> None:
        if self._lines > LOGGED_LINES:
            more = self._lines - LOGGED_LINES
            log.info("own_tool_printed_more", **{self._kind: self._name}, lines=more)
        self._lines = 0
        if kind == "end":
            self._ended = name
            self._news.set()
        else:
            self._kind, self._name = kind, name
            self._last.clear()
