"""The user's own tools: the files of a directory, loaded again whenever they change."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.gathered import Gathered
from navi.adapters.tools.arguments import all_in_words, name_faults
from navi.adapters.tools.own_tools.pool import ProcessPool, ToolTimeouts
from navi.adapters.tools.own_tools.process import FileEndedProcess, OwnToolsProcess
from navi.adapters.tools.own_tools.sources import SourceFiles, read_sources
from navi.adapters.tools.own_tools.wire import (
    CallTool,
    Helper,
    LoadProblem,
    LoadTools,
    Source,
    ToolsLoaded,
)
from navi.adapters.tools.program import clean_environment
from navi.adapters.tools.value_faults import value_faults
from navi.adapters.tools.worker_process import ProcessEnded
from navi.domain.log.secrets import Secrets, secret_values
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolDescription, ToolResult

log = structlog.get_logger()


class _Attempt(Struct, kw_only=True):
    """What is tried to be loaded: the newest texts, the last good ones of files that do not load.

    Attributes:
        problems: why files were left out, by name; the first reason is what the user wants to know.
    """

    files: LoadTools
    problems: dict[str, LoadProblem]


class _Ended(Struct, frozen=True):
    """A text that hung or ended the process that loaded it, with the modules beside it as they were."""

    source: Source
    helpers: tuple[Helper, ...]


class OwnTools:
    """The tools of a directory; an async context manager that owns their processes.

    Attributes:
        tools: as they were last loaded.
        problems: what was left out then, and why.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str],
        variables: Sequence[str] = (),
        taken: tuple[str, ...],
        timeouts: ToolTimeouts,
    ) -> None:
        """Name the directory; nothing is loaded yet.

        Args:
            environment: the server's; the tools get what programs need, and
            variables: those of it that they may see besides.
            taken: names that tools must not have.
        """
        self.tools: tuple[OwnTool, ...] = ()
        self.problems: tuple[LoadProblem, ...] = ()
        self._directory = directory
        seen = {name: environment[name] for name in variables if name in environment}
        if missing := [name for name in variables if name not in environment]:
            log.warning("own_tools_variables_not_set", names=missing)
        # Everybody is told why a file is left out, so also what is not named like a secret is masked.
        self._secrets = Secrets({**secret_values(environment), **seen})
        self._pool = ProcessPool({**clean_environment(environment), **seen}, timeouts)
        self._timeouts = timeouts
        self._taken = taken
        self._served = LoadTools(taken=taken)
        self._seen = SourceFiles()
        self._ended: dict[_Ended, LoadProblem] = {}
        self._sources = Gathered(self._read)
        self._loading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._seen = await asyncio.to_thread(read_sources, self._directory)
        except OSError as error:
            self._leave(error)
            return self
        try:
            await self._load(self._seen)
        except BaseException:
            await self._pool.end_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})
        await self._pool.end_all()

    async def look(self) -> None:
        """Load the files again where they have changed; one that hangs is not waited for."""
        try:
            files = await self._sources.ask(self._directory)
        except OSError as error:  # no reason to end a turn: what was loaded goes on
            self._leave(error)
            return
        if files != self._seen and (self._loading is None or self._loading.done()):
            self._seen = files
            self._loading = asyncio.create_task(self._reload(files))
        if self._loading is not None and not self._loading.done():
            await asyncio.wait({self._loading}, timeout=self._timeouts.reload)
        if self._loading is not None and self._loading.done():
            self._loading.result()

    async def run(
        self, tool: ToolDescription, arguments: JsonObject, context: ToolContext
    ) -> ToolResult:
        """Run a tool in a process."""
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
        return await self._pool.run(tool, call, context)

    async def _read(self, directories: Collection[Path]) -> Mapping[Path, SourceFiles]:
        return await asyncio.to_thread(lambda: {one: read_sources(one) for one in directories})

    def _leave(self, error: OSError) -> None:
        """Leave all as it is: the directory cannot be read."""
        words = f"{error.strerror or error}; what was loaded goes on"
        problem = LoadProblem(file=str(self._directory), error=words)
        if problem not in self.problems:
            log.warning("own_tools_unreadable", directory=problem.file, error=problem.error)
        self.problems = (problem,)
        self._seen = SourceFiles(problems=(problem,))  # so that all is looked at once it can be

    async def _reload(self, files: SourceFiles) -> None:
        await self._load(files)
        log.info("own_tools_reloaded", tools=len(self.tools), problems=len(self.problems))

    async def _load(self, files: SourceFiles) -> None:
        """Load all that can be loaded, and serve it from now on."""
        good = {source.file: source for source in self._served.sources}
        unread = [good[problem.file] for problem in files.problems if problem.file in good]
        attempt = _Attempt(
            files=LoadTools(
                sources=_in_order(*files.sources, *unread), helpers=files.helpers, taken=self._taken
            ),
            problems={problem.file: problem for problem in files.problems},
        )
        # Tried again only once it is another: else each edit of any file would take as long as it hangs.
        there = {*files.sources, *good.values()}
        self._ended = {
            ended: problem
            for ended, problem in self._ended.items()
            if ended.source in there and ended.helpers in (files.helpers, self._served.helpers)
        }
        for ended, problem in self._ended.items():
            tried = attempt.files  # the last good text may be one that ended it with other modules
            if ended.source in tried.sources and ended.helpers == tried.helpers:
                self._leave_out(attempt, tried, good, problem)
        process: OwnToolsProcess | None = None
        loaded = ToolsLoaded(tools=(), problems=())
        while attempt.files.sources and process is None:
            process, loaded = await self._try(attempt, good)
        if not attempt.files.sources and process is not None:
            await self._pool.end(process)
            process = None
        await self._pool.serve(attempt.files, process)
        self._served = attempt.files
        self.tools = tuple(OwnTool(description, self) for description in loaded.tools)
        served = {source.file for source in attempt.files.sources}
        parts = (problem for problem in loaded.problems if not problem.whole)
        problems = tuple(
            self._masked(problem)
            for problem in (*(_told(p, served) for p in attempt.problems.values()), *parts)
        )
        for problem in problems:
            if problem not in self.problems:
                log.warning("own_tools_left_out", file=problem.file, error=problem.error)
        self.problems = problems

    def _masked(self, problem: LoadProblem) -> LoadProblem:
        return replace(problem, error=self._secrets.mask(problem.error).text)

    async def _try(
        self, attempt: _Attempt, good: Mapping[str, Source]
    ) -> tuple[OwnToolsProcess | None, ToolsLoaded]:
        """Load an attempt; without a process where another has to be made, which the attempt then is."""
        nothing = ToolsLoaded(tools=(), problems=())
        tried = attempt.files
        try:
            process, loaded = await self._pool.load(tried)
        except FileEndedProcess as error:
            problem = LoadProblem(file=error.file, error=error.why)
            source = next(source for source in tried.sources if source.file == error.file)
            # What has loaded before was held up by something else: the next edit tries it again.
            if (source, tried.helpers) != (good.get(error.file), self._served.helpers):
                self._ended[_Ended(source, tried.helpers)] = problem
            self._leave_out(attempt, tried, good, problem)
            return None, nothing
        except (ProcessEnded, OSError) as error:
            problem = LoadProblem(file=str(self._directory), error=str(error))
            attempt.problems[problem.file] = problem
            attempt.files = replace(attempt.files, sources=())
            return None, nothing
        failed = [problem for problem in loaded.problems if problem.whole]
        again = [self._leave_out(attempt, tried, good, problem) for problem in failed]
        if any(again):
            await self._pool.end(process)
            return None, nothing
        return process, loaded

    def _leave_out(
        self,
        attempt: _Attempt,
        tried: LoadTools,
        good: Mapping[str, Source],
        problem: LoadProblem,
    ) -> bool:
        """Whether a file that does not load is to be tried once more: as it was, or with what it imported.

        Args:
            tried: what did not load; by now the attempt may have changed for another file that did not.
        """
        attempt.problems.setdefault(problem.file, problem)
        files = attempt.files
        was = good.get(problem.file)
        others = tuple(source for source in files.sources if source.file != problem.file)
        if was is not None and was not in files.sources:
            attempt.files = replace(files, sources=_in_order(*others, was))
            return True
        if was is not None and tried.helpers != self._served.helpers:
            attempt.files = replace(files, helpers=self._served.helpers)
            return True
        attempt.files = replace(files, sources=others)
        return False


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
        """Which names are wrong, and with them which values; else the process looks at those.

        It knows the types, of which the schema is a part.
        """
        parameters = self._description.parameters
        faults = name_faults(
            arguments,
            known=tuple(parameters.get("properties", {})),
            required=tuple(parameters.get("required", ())),
        )
        if not faults:
            return None
        return all_in_words(chain(faults, value_faults(arguments, parameters)), parameters)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Run it in a process of its own."""
        if (problem := self.check(arguments)) is not None:
            return ToolResult(outcome="error", output=problem)
        return await self._tools.run(self._description, arguments, context)


def _in_order(*sources: Source) -> tuple[Source, ...]:
    return tuple(sorted(sources, key=lambda source: source.file))


def _told(problem: LoadProblem, served: set[str]) -> LoadProblem:
    if problem.file not in served:
        return problem
    return replace(problem, error=f"{problem.error}; its last good version goes on")
