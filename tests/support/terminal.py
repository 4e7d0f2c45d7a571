"""A command on a terminal of its own: what a person would type, and what they would see."""

import asyncio
import os
import re
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from fcntl import ioctl
from pty import openpty
from termios import TIOCSWINSZ

SEEN_SECONDS = 60.0
ROWS, COLUMNS = 24, 100
WHERE_IS_THE_CURSOR, AT_THE_TOP = b"\x1b[6n", b"\x1b[1;1R"

# The last one may be there by half.
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\[?[0-9;?]*$|\r")


class Terminal:
    """The person's side of a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._seen = bytearray()
        self._looked = 0
        self._answered = 0  # questions where the cursor is
        self._news = asyncio.Event()

    @property
    def screen(self) -> str:
        """Everything that was drawn, one drawing after the other, without escape sequences."""
        return _ESCAPE.sub("", self._seen.decode("utf-8", "replace"))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._descriptor, text.encode())

    async def sees(self, text: str) -> None:
        """Wait until a text is drawn, behind what was waited for before."""
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                while (place := self.screen.find(text, self._looked)) < 0:
                    await self._news.wait()
                    self._news.clear()
                self._looked = place + len(text)
        except TimeoutError:
            raise AssertionError(f"{text!r} was not drawn:\n{self.screen}") from None

    async def ended(self) -> int:
        """Wait for the end of the command; gives its exit status."""
        async with asyncio.timeout(SEEN_SECONDS):
            return await self.process.wait()

    def take(self) -> None:
        """Take in what was drawn."""
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # Linux's way to say that the command has closed its side
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._seen += data
        # The last one may come by half.
        while self._seen.count(WHERE_IS_THE_CURSOR) > self._answered:
            self._answered += 1
            os.write(self._descriptor, AT_THE_TOP)
        self._news.set()


@asynccontextmanager
async def on_terminal(
    *command: str, environment: Mapping[str, str]
) -> AsyncGenerator[Terminal, None]:
    """Run a command on a terminal; killed at the end where it has not ended itself."""
    ours, theirs = openpty()
    ioctl(ours, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**environment, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, 0x540E, 0),  # TIOCSCTTY: Ctrl-C has to reach it
    )
    os.close(theirs)
    loop = asyncio.get_running_loop()
    terminal = Terminal(process, ours)
    loop.add_reader(ours, terminal.take)
    try:
        yield terminal
    finally:
        loop.remove_reader(ours)
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(ours)
