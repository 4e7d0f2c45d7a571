"""The processes that own tools run in.

A process runs one call at a time. A call that goes wrong, does not heed its stop or takes too long
then costs its own process and nothing else; one that ends well leaves the process to the next call,
so that what a module keeps (a cache, a connection) is still there in it. Calls at the same time run
in different processes and share no memory.
"""

import asyncio
from collections.abc import Mapping

import structlog
from msgspec import Struct

from navi.adapters.tools.own_tools.process import FileEndedProcess, OwnToolsProcess
from navi.adapters.tools.own_tools.wire import CallEnded, CallTool, LoadTools, ToolsLoaded
from navi.adapters.tools.worker_process import ProcessEnded
from navi.ports.tools import StopSignal, ToolContext, ToolDescription, ToolResult

MAX_PROCESSES = 16  # calls of own tools at the same time
MAX_IDLE = 2  # processes that wait for the next call

log = structlog.get_logger()


class ToolTimeouts(Struct, frozen=True, kw_only=True):
    """Time-outs of own tools, in seconds.

    Attributes:
        load: for each file, when a process starts.
        reload: that a call waits for edited files; those that take longer count from a later one on.
        call: for a call.
        stop_grace: from the stop to the end of the call; then the process is killed.
    """

    load: float = 30.0
    reload: float = 5.0
    call: float = 300.0
    stop_grace: float = (
        0.55  # leaves time to kill within the 0.8 s that a halted turn waits for a tool
    )


class ProcessPool:
    """Starts processes, hands them to calls, and ends them."""

    def __init__(self, environment: Mapping[str, str], timeouts: ToolTimeouts) -> None:
        self._environment = environment
        self._timeouts = timeouts
        self._version = 0
        self._load: LoadTools | None = None
        self._idle: list[OwnToolsProcess] = []
        self._all: set[OwnToolsProcess] = set()
        self._running = 0

    async def load(self, files: LoadTools) -> tuple[OwnToolsProcess, ToolsLoaded]:
        """A process that has loaded these files; whoever gets it ends it, or has them served by it.

        Raises:
            FileEndedProcess: names the file that ended it.
            ProcessEnded, OSError: no process could be started.
        """
        return await self._start(files, version=self._version + 1)

    async def serve(self, files: LoadTools, process: OwnToolsProcess | None) -> None:
        """Have later calls run these files; those under way end with the ones they began with."""
        self._version += 1
        self._load = files
        old, self._idle = self._idle, [] if process is None else [process]
        for one in old:
            await self.end(one)

    async def run(self, tool: ToolDescription, call: CallTool, context: ToolContext) -> ToolResult:
        """Run a tool; ends at most ``stop_grace`` seconds after the stop or the time-out."""
        if self._running >= MAX_PROCESSES:
            return ToolResult(
                outcome="error",
                output=f"{MAX_PROCESSES} calls of own tools are running already; try again later",
            )
        self._running += 1
        process: OwnToolsProcess | None = None
        reusable = False
        try:
            process = await self._take()
            ended = await self._call(process, call, context.stop)
            reusable = isinstance(ended, CallEnded) and ended.reusable
            return await self._result(tool, call, process, ended, context.stop)
        except (ProcessEnded, FileEndedProcess, OSError) as error:
            if process is None:
                return ToolResult(outcome="error", output=f"its process did not start: {error}")
            why = f"the process of the tool ended: {error}"
            return _unknown(tool, why, printed=await process.last_lines(call))
        finally:
            self._running -= 1
            if process is not None:
                await self._give_back(process, reusable=reusable)

    async def end(self, process: OwnToolsProcess) -> None:
        """End a process."""
        self._all.discard(process)
        await process.end()

    async def end_all(self) -> None:
        """End all processes, also those in which calls run."""
        self._idle.clear()
        for process in tuple(self._all):
            await self.end(process)

    async def _call(
        self, process: OwnToolsProcess, call: CallTool, stopped: StopSignal
    ) -> CallEnded | None:
        """How the call ended; None where it had to be given up."""
        answer = asyncio.create_task(process.call(call))
        stop = asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait(
                {answer, stop}, timeout=self._timeouts.call, return_when=asyncio.FIRST_COMPLETED
            )
            if not answer.done():
                await process.stop_call()
                await asyncio.wait({answer}, timeout=self._timeouts.stop_grace)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()
            stop.cancel()
            await asyncio.wait({answer, stop})

    async def _result(
        self,
        tool: ToolDescription,
        call: CallTool,
        process: OwnToolsProcess,
        ended: CallEnded | None,
        stop: StopSignal,
    ) -> ToolResult:
        if ended is None or ended.cancelled:
            if stop.is_set():
                return _unknown(tool, "stopped before the tool had ended")
            why = f"ended after {self._timeouts.call:g} s, before the tool had"
            return _unknown(tool, why, printed=await process.last_lines(call))
        output = ended.output
        if ended.traceback:
            log.warning("own_tool_failed", tool=tool.name, traceback=ended.traceback)
            output += _printed(await process.last_lines(call))
        return ToolResult(outcome=ended.outcome, output=output, truncated=ended.truncated)

    async def _take(self) -> OwnToolsProcess:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            await self.end(process)
        assert self._load is not None  # noqa: S101 - there is a tool to be called
        process, _ = await self._start(self._load, version=self._version)
        return process

    async def _start(
        self, files: LoadTools, *, version: int
    ) -> tuple[OwnToolsProcess, ToolsLoaded]:
        process = await OwnToolsProcess.start(self._environment, version=version)
        self._all.add(process)
        try:
            return process, await process.load(files, seconds=self._timeouts.load)
        except BaseException:
            await self.end(process)
            raise

    async def _give_back(self, process: OwnToolsProcess, *, reusable: bool) -> None:
        current = process.version == self._version and process in self._all
        if reusable and process.alive and len(self._idle) < MAX_IDLE and current:
            self._idle.append(process)
        else:
            await self.end(process)


def _unknown(tool: ToolDescription, why: str, *, printed: str = "") -> ToolResult:
    if tool.safe_to_repeat:
        return ToolResult(
            outcome="error", output=f"{why}; it may be called again" + _printed(printed)
        )
    output = f"{why}; what it has done by then is not known" + _printed(printed)
    return ToolResult(outcome="unknown", output=output)


def _printed(lines: str) -> str:
    return f"\n\nIt printed last:\n{lines}" if lines else ""
