"""A process that works for the server: started from a module of navi, spoken to in frames."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from navi.adapters.tools.descendants import kill_with_descendants
from navi.adapters.tools.frames import FrameTooLarge, receive, send
from navi.adapters.tools.program import command_of

END_SECONDS = 5.0  # for a killed process to be gone
SEND_SECONDS = 5.0  # for a message to be taken; a process that waits for one takes it at once

M = TypeVar("M")


class ProcessEnded(Exception):
    """The process ended, or wrote what it should not; the message says how, in words."""


class WorkerProcess:
    """A started process; whoever has it calls ``end``."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(
        cls, module: str, environment: Mapping[str, str], *, prints_to: int = 2
    ) -> Self:
        """Run a module as a process with this environment and nothing else from the server.

        The module is given the number of its end of a socket and the server's process id.

        Args:
            prints_to: descriptor of what it prints to; by default it is for the person who runs the server.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command_of(module, str(theirs.fileno()), str(os.getpid())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=prints_to,
                    stderr=prints_to,
                    env=dict(environment),
                    pass_fds=(theirs.fileno(),),
                    # A group of its own: killed with all it started, untouched by Ctrl-C.
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            process.kill()
            raise
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether it was still running when that was last looked at."""
        return self._process.returncode is None

    async def send(self, message: Struct) -> None:
        """Send one message.

        Raises:
            ProcessEnded: there is nobody who takes it.
        """
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await send(self._writer, message)
        except TimeoutError as error:
            raise ProcessEnded("it does not listen") from error
        except OSError as error:
            raise ProcessEnded(await self._how()) from error

    async def receive(self, kinds: type[M] | Any, *, limit: int) -> M:
        """The next message, of one of these kinds and at most ``limit`` bytes.

        Raises:
            ProcessEnded: there is none, or it is something else.
        """
        try:
            frame = await receive(self._reader, limit=limit)
            return msgspec.json.decode(frame, type=kinds)
        except (EOFError, OSError) as error:
            raise ProcessEnded(await self._how()) from error
        except (FrameTooLarge, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProcessEnded(f"it wrote nonsense: {error}") from error

    async def ask_to_end(self, *, seconds: float) -> None:
        """Say that nothing more will come, and give it time to end what it started."""
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(seconds):
                await self._process.wait()

    async def end(self) -> None:
        """Kill it with all it started, and wait until it is gone."""
        # Not where it has been waited for: its number may be another process's by now.
        if self._process.returncode is None:
            await asyncio.to_thread(kill_with_descendants, self._process.pid)
        else:
            self._kill_group()
        with suppress(TimeoutError):  # the kernel may hold a process that waits for a dead disk
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _kill_group(self) -> None:
        """Kill what is left of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _how(self) -> str:
        """Why the process ended; kills what is left of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
        code = self._process.returncode
        return "it closed its connection" if code is None else how_ended(code)


def how_ended(code: int) -> str:
    """How a process ended, by its return code, in words."""
    if code >= 0:
        return f"it exited with status {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
