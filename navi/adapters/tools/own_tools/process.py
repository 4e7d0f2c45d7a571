"""A process of own tools, as the server drives it."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Self

import structlog

from navi.adapters.tools.own_tools.printed import Printed
from navi.adapters.tools.own_tools.wire import (
    MAX_ANSWER_BYTES,
    CallEnded,
    CallTool,
    FileLoading,
    FromProcess,
    LoadTools,
    StopTool,
    ToolsLoaded,
)
from navi.adapters.tools.worker_process import ProcessEnded, WorkerProcess

START_SECONDS = 30.0  # for Python to start and to import what runs the tools
SLOW_SECONDS = 3.0  # to load a file, from when on the log says what the start waits for
LAST_LINES_SECONDS = 0.5  # for what was printed to be read, once nothing more will be

log = structlog.get_logger()


class FileEndedProcess(Exception):
    """Loading a file took the process with it, or did not come to an end."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file}: {why}")
        self.file = file
        self.why = why


class OwnToolsProcess:
    """A started process; whoever has it calls ``end``.

    Attributes:
        version: of the files that it runs.
    """

    def __init__(self, process: WorkerProcess, printed: Printed, *, version: int) -> None:
        self.version = version
        self._process = process
        self._printed = printed
        self._reading = asyncio.create_task(printed.read())

    @classmethod
    async def start(cls, environment: Mapping[str, str], *, version: int) -> Self:
        """Start a process with this environment and nothing else from the server."""
        printed = Printed()
        try:
            process = await WorkerProcess.start(
                "navi.adapters.tools.own_tools.worker", environment, prints_to=printed.descriptor
            )
        except BaseException:
            printed.close()
            raise
        printed.started()
        return cls(process, printed, version=version)

    @property
    def alive(self) -> bool:
        """Whether it was still running when that was last looked at."""
        return self._process.alive

    async def load(self, request: LoadTools, *, seconds: float) -> ToolsLoaded:
        """Load the tools; ``seconds`` is for each file.

        Raises:
            FileEndedProcess: names the file.
            ProcessEnded: it ended without one being to blame.
        """
        file: str | None = None
        try:
            await self._process.send(request)
            while True:
                async with asyncio.timeout(START_SECONDS if file is None else seconds):
                    with _told_when_slow(file):
                        message = await self._receive()
                match message:
                    case FileLoading():
                        file = message.file
                    case ToolsLoaded():
                        return message
                    case CallEnded():
                        pass  # nobody has called anything yet
        except TimeoutError as error:
            if file is None:
                raise ProcessEnded("it did not start") from error
            why = f"loading it took longer than {seconds:g} s"
            raise FileEndedProcess(file, why) from error
        except ProcessEnded as error:
            if file is None:
                raise
            raise FileEndedProcess(file, f"loading it ended the process: {error}") from error

    async def call(self, call: CallTool) -> CallEnded:
        """Run a tool to its end.

        Raises:
            ProcessEnded: the process did, before the tool had.
        """
        await self._process.send(call)
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
        await self._process.send(StopTool())

    async def last_lines(self, call: CallTool) -> str:
        """What it printed last, in a call that is over one way or another."""
        call_id = call.call_id if self.alive else None
        return await self._printed.last(call_id, seconds=LAST_LINES_SECONDS)

    async def end(self) -> None:
        """Kill it with all it started, and wait until it is gone."""
        await self._process.end()
        await asyncio.wait({self._reading}, timeout=LAST_LINES_SECONDS)
        self._reading.cancel()  # what has detached itself may hold the other end
        await asyncio.wait({self._reading})

    async def _receive(self) -> FromProcess:
        return await self._process.receive(FromProcess, limit=MAX_ANSWER_BYTES)


@contextmanager
def _told_when_slow(file: str | None) -> Generator[None, None, None]:
    """Say in the log which file is being loaded, once that takes long."""
    loop = asyncio.get_running_loop()
    telling = loop.call_later(
        SLOW_SECONDS, lambda: log.warning("own_tools_slow_to_load", file=file)
    )
    try:
        yield
    finally:
        telling.cancel()
