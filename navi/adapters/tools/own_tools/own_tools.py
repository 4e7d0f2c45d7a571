"""The user's own tools and the pool of processes they run in.

A process runs one call at a time. A call that goes wrong, does not stop_grace its stop or takes too long
then costs its own process and nothing else; one that ends well leaves the process to the next call,
so that what a module keeps (a cache, a connection) is still there in it. Calls at the same time run
in different processes and share no memory.
"""

import asyncio
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.tools.arguments import all_in_words, name_faults
from navi.adapters.tools.own_tools.process import FileEndedProcess, OwnToolsProcess
from navi.adapters.tools.own_tools.wire import (
    CallEnded,
    CallTool,
    LoadProblem,
    LoadTools,
    Source,
    ToolsLoaded,
)
from navi.adapters.tools.program import clean_environment
from navi.adapters.tools.worker_process import ProcessEnded
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolDescription, ToolResult

MAX_PROCESSES = 16  # calls of own tools at the same time
MAX_IDLE = 2  # processes that wait for the next call
MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 200

log = structlog.get_logger()


class ToolTimeouts(Struct, frozen=True, kw_only=True):
    """Time-outs of own tools, in seconds.

    Attributes:
        load: for each file, when a process starts.
        call: for a call.
        stop_grace: from the stop to the end of the call; then the process is killed.
    """

    load: float = 30.0
    call: float = 300.0
    stop_grace: float = (
        0.55  # leaves time to kill within the 0.8 s that a halted turn waits for a tool
    )


class OwnTools:
    """The tools of a directory; an async context manager that owns their processes.

    Attributes:
        tools: what was loaded when it was entered.
        problems: files that were left out, and why.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str],
        taken: tuple[str, ...],
        timeouts: ToolTimeouts,
    ) -> None:
        self.tools: tuple[OwnTool, ...] = ()
        self.problems: tuple[LoadProblem, ...] = ()
        self._directory = directory
        self._environment = clean_environment(environment)
        self._timeouts = timeouts
        self._load = LoadTools(sources=(), taken=taken)
        self._idle: list[OwnToolsProcess] = []
        self._all: set[OwnToolsProcess] = set()
        self._running = 0

    async def __aenter__(self) -> Self:
        sources, problems = await asyncio.to_thread(_read_sources, self._directory)
        self._load = replace(self._load, sources=sources)
        try:
            loaded = await self._first_load(problems)
        except BaseException:
            await self._end_all()
            raise
        self.problems = (*problems, *loaded.problems)
        self.tools = tuple(OwnTool(description, self) for description in loaded.tools)
        for problem in self.problems:
            log.warning("own_tools_left_out", file=problem.file, error=problem.error)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end_all()

    async def run(
        self, tool: ToolDescription, arguments: JsonObject, context: ToolContext
    ) -> ToolResult:
        """Run a tool in a process; ends at most ``stop_grace`` seconds after the stop or the time-out."""
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
            ended = await self._call(process, tool, arguments, context)
            reusable = isinstance(ended, CallEnded) and ended.reusable
        except (ProcessEnded, FileEndedProcess, OSError) as error:
            if process is None:
                return ToolResult(outcome="error", output=f"its process did not start: {error}")
            return _unknown(tool, f"the process of the tool ended: {error}")
        finally:
            self._running -= 1
            if process is not None:
                await self._give_back(process, reusable=reusable)
        match ended:
            case str(why):
                return _unknown(tool, why)
            case CallEnded(cancelled=True):
                return _unknown(tool, self._why(context))
            case _:
                return ToolResult(
                    outcome=ended.outcome, output=ended.output, truncated=ended.truncated
                )

    async def _call(
        self,
        process: OwnToolsProcess,
        tool: ToolDescription,
        arguments: JsonObject,
        context: ToolContext,
    ) -> CallEnded | str:
        """How the call ended, or why it had to be given up."""
        call = CallTool(
            tool=tool.name,
            arguments=arguments,
            session_id=context.session_id,
            user_id=context.user_id,
            user_role=context.user_role,
            user_info=context.user_info,
            call_id=context.call_id,
            workspace=str(context.workspace.absolute()),
        )
        answer = asyncio.create_task(process.call(call))
        stop = asyncio.ensure_future(context.stop.wait())
        try:
            await asyncio.wait(
                {answer, stop}, timeout=self._timeouts.call, return_when=asyncio.FIRST_COMPLETED
            )
            if not answer.done():
                await process.stop_call()
                await asyncio.wait({answer}, timeout=self._timeouts.stop_grace)
            return answer.result() if answer.done() else self._why(context)
        finally:
            answer.cancel()
            stop.cancel()
            await asyncio.wait({answer, stop})

    def _why(self, context: ToolContext) -> str:
        if context.stop.is_set():
            return "stopped before the tool had ended"
        return f"ended after {self._timeouts.call:g} s, before the tool had"

    async def _first_load(self, problems: list[LoadProblem]) -> ToolsLoaded:
        """Load all files that can be loaded; those that end the process are left out, one by one."""
        while self._load.sources:
            try:
                process, loaded = await self._start()
            except FileEndedProcess as error:
                problems.append(LoadProblem(file=error.file, error=error.why))
                sources = tuple(s for s in self._load.sources if s.file != error.file)
                if len(sources) == len(self._load.sources):
                    break
                self._load = replace(self._load, sources=sources)
            except (ProcessEnded, OSError) as error:
                problems.append(LoadProblem(file=str(self._directory), error=str(error)))
                break
            else:
                bad = {problem.file for problem in loaded.problems}
                sources = tuple(s for s in self._load.sources if s.file not in bad)
                self._load = replace(self._load, sources=sources)
                self._idle.append(process)
                return loaded
        return ToolsLoaded(tools=(), problems=())

    async def _take(self) -> OwnToolsProcess:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            await self._end(process)
        process, _ = await self._start()
        return process

    async def _start(self) -> tuple[OwnToolsProcess, ToolsLoaded]:
        process = await OwnToolsProcess.start(self._environment)
        self._all.add(process)
        try:
            return process, await process.load(self._load, seconds=self._timeouts.load)
        except BaseException:
            await self._end(process)
            raise

    async def _give_back(self, process: OwnToolsProcess, *, reusable: bool) -> None:
        if reusable and process.alive and len(self._idle) < MAX_IDLE and process in self._all:
            self._idle.append(process)
        else:
            await self._end(process)

    async def _end(self, process: OwnToolsProcess) -> None:
        self._all.discard(process)
        await process.end()

    async def _end_all(self) -> None:
        self._idle.clear()
        for process in tuple(self._all):
            await self._end(process)


class OwnTool:
    """One of the user's own tools, as the port ``Tool``."""

    def __init__(self, description: ToolDescription, tools: OwnTools) -> None:
        self._description = description
        self._tools = tools

    @property
    def description(self) -> ToolDescription:
        """Name, description and parameters of the tool."""
        return self._description

    def check(self, arguments: JsonObject) -> str | None:
        """Which names are wrong; the values are looked at in the process, which knows the types."""
        parameters = self._description.parameters
        faults = name_faults(
            arguments,
            known=tuple(parameters.get("properties", {})),
            required=tuple(parameters.get("required", ())),
        )
        return all_in_words(faults, parameters)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Run it in a process of its own."""
        if (problem := self.check(arguments)) is not None:
            return ToolResult(outcome="error", output=problem)
        return await self._tools.run(self._description, arguments, context)


def _unknown(tool: ToolDescription, why: str) -> ToolResult:
    if tool.safe_to_repeat:
        return ToolResult(outcome="error", output=f"{why}; it may be called again")
    return ToolResult(outcome="unknown", output=f"{why}; what it has done by then is not known")


def _read_sources(directory: Path) -> tuple[tuple[Source, ...], list[LoadProblem]]:
    """The files as they are now: a process that starts later runs the same text."""
    sources: list[Source] = []
    problems: list[LoadProblem] = []
    files = sorted(directory.glob("*.py")) if directory.is_dir() else []
    for path in files[:MAX_FILES]:
        if path.name.startswith((".", "_")):
            continue
        try:
            text = _read_source(path)
        except (OSError, ValueError, SyntaxError) as error:
            problems.append(LoadProblem(file=path.name, error=str(error)))
        else:
            sources.append(Source(file=path.name, path=str(path), text=text))
    problems.extend(
        LoadProblem(file=path.name, error=f"there are more than {MAX_FILES} files")
        for path in files[MAX_FILES:]
    )
    return tuple(sources), problems


def _read_source(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES:,} bytes")
    return importlib.util.decode_source(path.read_bytes())
