"""A process of own tools, as the server drives it."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

import msgspec

from navi.adapters.tools.own_tools.descendants import kill_with_descendants
from navi.adapters.tools.own_tools.wire import (
    MAX_ANSWER_BYTES,
    CallEnded,
    CallTool,
    FileLoading,
    FrameTooLarge,
    FromProcess,
    LoadTools,
    StopTool,
    ToolsLoaded,
    ToProcess,
    receive,
    send,
)
from navi.adapters.tools.program import command_of

END_SECONDS = 5.0  # for a killed process to be gone
SEND_SECONDS = 5.0  # for a message to be taken; a process that waits for one takes it at once


class ProcessEnded(Exception):
    """The process ended, or wrote what it should not; the message says how, in words."""


class FileEndedProcess(Exception):
    """Loading a file took the process with it, or did not come to an end."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file}: {why}")
        self.file = file
        self.why = why


class OwnToolsProcess:
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
    async def start(cls, environment: Mapping[str, str]) -> Self:
        """Start a process with this environment and nothing else from the server."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command_of(
                        "navi.adapters.tools.own_tools.worker",
                        str(theirs.fileno()),
                        str(os.getpid()),
                    ),
                    stdin=asyncio.subprocess.DEVNULL,
                    # What a tool prints is for the person who runs the server.
                    stdout=2,
                    stderr=2,
                    env=dict(environment),
                    pass_fds=(theirs.fileno(),),
                    # A group of its own: killed with all it started, untouched by Ctrl-C.
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    @property
    def alive(self) -> bool:
        """Whether it was still running when that was last looked at."""
        return self._process.returncode is None

    async def load(self, request: LoadTools, *, seconds: float) -> ToolsLoaded:
        """Load the tools; ``seconds`` is for each file.

        Raises:
            FileEndedProcess: names the file.
            ProcessEnded: it ended without one being to blame.
        """
        file: str | None = None
        try:
            await self._send(request)
            while True:
                async with asyncio.timeout(seconds):
                    message = await self._receive()
                match message:
                    case FileLoading():
                        file = message.file
                    case ToolsLoaded():
                        return message
                    case CallEnded():
                        pass  # nobody has called anything yet
        except TimeoutError as error:
            why = f"loading it took longer than {seconds:g} s"
            raise FileEndedProcess(file or "", why) from error
        except ProcessEnded as error:
            if file is None:
                raise
            raise FileEndedProcess(file, f"loading it ended the process: {error}") from error

    async def call(self, call: CallTool) -> CallEnded:
        """Run a tool to its end.

        Raises:
            ProcessEnded: the process did, before the tool had.
        """
        await self._send(call)
        match await self._receive():
            case CallEnded() as ended:
                return ended
            case FileLoading() | ToolsLoaded():
                raise ProcessEnded("it answered what was never asked")

    async def stop_call(self) -> None:
        """Ask the running tool to end.

        Raises:
            ProcessEnded: there is no process any more.
        """
        await self._send(StopTool())

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

    async def _send(self, message: ToProcess) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await send(self._writer, message)
        except TimeoutError as error:
            raise ProcessEnded("it does not listen") from error
        except OSError as error:
            raise ProcessEnded(await self._how()) from error

    async def _receive(self) -> FromProcess:
        try:
            frame = await receive(self._reader, limit=MAX_ANSWER_BYTES)
            return msgspec.json.decode(frame, type=FromProcess)
        except (EOFError, OSError) as error:
            raise ProcessEnded(await self._how()) from error
        except (FrameTooLarge, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProcessEnded(f"it wrote nonsense: {error}") from error

    async def _how(self) -> str:
        """Why the process ended; kills what is left of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "it closed its connection"
        if code >= 0:
            return f"it exited with status {code}"
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
        return f"it was ended by signal {-code}"
