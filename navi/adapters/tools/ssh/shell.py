"""A channel of a connection on which the host's ``sh`` reads a script, and what it says."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Self

import asyncssh

WINDOW_BYTES = 256 * 1024  # what a host may send before it is read: all that waits in memory
# A program in the background that has kept the output keeps the channel open; nobody waits for it.
LINGER_SECONDS = 2.0  # without output, after the exit status
# What a channel that is not given, or a connection that breaks, brings the library to raise.
BROKEN = (asyncssh.Error, OSError)


class RemoteShell(asyncssh.SSHClientSession[bytes]):
    """What happens on the channel.

    Attributes:
        status: the exit status of the script, once it is known.
        signal: the name of the signal that ended it, likewise.
        lost: why the connection was lost, where it was.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.signal: str | None = None
        self.lost: str | None = None
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._waiting = bytearray()
        self._news = asyncio.Event()
        self._closed = False
        self._cut = False

    @classmethod
    async def open(cls, connection: asyncssh.SSHClientConnection) -> Self:
        """A shell that waits for its script.

        Raises:
            asyncssh.Error: the server gives no channel, or is gone.
            OSError: likewise.
        """
        shell = cls()
        await connection.create_session(  # pyright: ignore[reportUnknownMemberType] - of str or bytes
            lambda: shell,
            "sh",  # whatever shell the user has there: it knows how to start this one
            env=(),
            send_env=(),
            request_pty=False,
            encoding=None,
            window=WINDOW_BYTES,
        )
        return shell

    @property
    def ended(self) -> bool:
        """Whether the script has ended, however."""
        return self._closed or self.status is not None or self.signal is not None

    def run(self, script: str) -> None:
        """Give it its script; once in a life."""
        if self._channel is not None and not self._channel.is_closing():
            data = script.encode()
            self._channel.write(data)  # pyright: ignore[reportUnknownMemberType] - of str or bytes
            self._channel.write_eof()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """What it says, until it has ended or ``cut`` is called."""
        while True:
            self._news.clear()
            if self._waiting:
                piece = bytes(self._waiting)
                self._waiting.clear()
                if self._channel is not None:
                    self._channel.resume_reading()
                yield piece
                continue
            if self._closed or self._cut:
                return
            try:
                async with asyncio.timeout(LINGER_SECONDS if self.ended else None):
                    await self._news.wait()
            except TimeoutError:
                return

    def cut(self) -> None:
        """Nobody wants to know more: ``pieces`` ends with what there is."""
        self._cut = True
        self._news.set()

    def close(self, *, kill: bool = False) -> None:
        """Close the channel."""
        if self._channel is not None and not self._channel.is_closing():
            if kill:  # many servers pass it on to what they started
                self._channel.send_signal("KILL")
            self._channel.close()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Take a piece; reading goes on when it was read."""
        if self._cut:
            return
        self._waiting += data
        if len(self._waiting) >= WINDOW_BYTES and self._channel is not None:
            self._channel.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        """No more output comes; the exit status may."""
        return True

    def exit_status_received(self, status: int) -> None:
        """The script has ended."""
        self.status = status
        self._news.set()

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """It was ended."""
        self.signal = signal
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed."""
        if exc is not None:
            self.lost = str(exc)
        self._closed = True
        self._news.set()
