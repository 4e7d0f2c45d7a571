"""An MCP server that is kept connected: started anew with growing pauses, called while it is up."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.tools.mcp.config import HttpServer, Problem, ServerEntry, StdioServer
from navi.adapters.tools.mcp.names import is_of, offered_names
from navi.adapters.tools.mcp.tool import SOURCE, McpTool
from navi.adapters.tools.mcp.wire import (
    MAX_ANSWER_BYTES,
    CallEnded,
    CallProgressed,
    CallTool,
    CancelCall,
    ConnectTo,
    FromProcess,
    ServerLost,
    ToolsListed,
)
from navi.adapters.tools.worker_process import ProcessEnded, WorkerProcess
from navi.domain.log.secrets import Secrets, secret_values
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import AllowedTools, ToolContext, ToolResult

MODULE = "navi.adapters.tools.mcp.worker"
MAX_CALLS = 16  # of a server at the same time
STARTING = "it is starting"

log = structlog.get_logger()


class ServerDelays(Struct, frozen=True, kw_only=True):
    """What is waited for, in seconds.

    Attributes:
        start: a server has this long to list its tools; `npx` may fetch it first.
        first_pause: before a server is started again, doubled each time up to ``longest_pause``.
        steady: a server that was up for so long is started again after the first pause.
        ready: how long a call waits for a server that is being started, for the first time or again.
        late: beyond its own time-out a call's process has this long to say so, then it is killed.
        leave: at the end for a server to end by itself.
    """

    start: float = 120.0
    first_pause: float = 1.0
    longest_pause: float = 300.0
    steady: float = 60.0
    ready: float = 10.0
    late: float = 3.0
    leave: float = 2.5


class McpServer:
    """A server of the file, connected while ``run`` runs.

    Attributes:
        tools: those it had when it was last up: they stay while it is started again, so that what
            the model is told does not change to and fro.
        problems: tools that are left out.
        trouble: why it cannot be called now; None while it is up.
    """

    def __init__(
        self,
        entry: ServerEntry,
        *,
        basics: Mapping[str, str],
        delays: ServerDelays,
        allowed: AllowedTools,
        secrets: Mapping[str, str],
    ) -> None:
        """Name the server; nothing is started yet.

        Args:
            basics: the variables that every program needs.
            allowed: what its tools were like when they were last allowed.
            secrets: of navi's own environment.
        """
        self.entry = entry
        self.tools: tuple[McpTool, ...] = ()
        self.problems: tuple[Problem, ...] = ()
        self.trouble: str | None = STARTING
        self._basics = basics
        self._delays = delays
        self._allowed = allowed
        # Everybody is told why it is not there, so also what is not named like a secret is masked.
        given = {name: v for name, v in entry.variables.items() if name not in basics}
        self._secrets = Secrets({**secrets, **given})
        self._connection: _Connection | None = None
        self._up = asyncio.Event()
        self._tried = asyncio.Event()
        self._waited_until = asyncio.get_running_loop().time() + delays.ready

    def starting(self, name: str) -> bool:
        """Whether it is being started for the first time, and may have a tool of that name.

        No longer than a call waits for a server.
        """
        waited = asyncio.get_running_loop().time() < self._waited_until
        return waited and not self._tried.is_set() and is_of(self.entry.id, name)

    async def tried(self) -> None:
        """Wait until it is up, or could not be started."""
        await self._tried.wait()

    async def run(self) -> None:
        """Keep it connected until this is cancelled."""
        loop = asyncio.get_running_loop()
        pause = self._delays.first_pause
        while True:
            began = loop.time()
            lost = await self._connected()
            # What a program says may hold anything: it is for who asks, not for a log.
            reason = self._secrets.mask(lost.reason).text
            log.warning("mcp_server_lost", server=self.entry.name, reason=reason)
            words = f"; its last words: {lost.last_words}" if lost.last_words else ""
            self.trouble = f"{reason}{self._secrets.mask(words).text}"
            self._tried.set()
            if loop.time() - began >= self._delays.steady:
                pause = self._delays.first_pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._delays.longest_pause)

    async def call(self, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Call a tool by its own name; ends soon after the stop, or after the server's time-out."""
        connection = await self._ready(context)
        if connection is None:
            return ToolResult(
                outcome="error", output=f"The server {self.entry.name} does not run: {self.trouble}"
            )
        if len(connection.calls) >= MAX_CALLS:
            return ToolResult(
                outcome="error",
                output=f"{MAX_CALLS} calls of {self.entry.name} are running already; try again later",
            )
        return await connection.call(tool, arguments, context)

    async def _ready(self, context: ToolContext) -> "_Connection | None":
        """The connection, waited for a little where the server is being started again."""
        if self._connection is None:
            up = asyncio.ensure_future(self._up.wait())
            stop = asyncio.ensure_future(context.stop.wait())
            try:
                await asyncio.wait(
                    {up, stop}, timeout=self._delays.ready, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                up.cancel()
                stop.cancel()
        return self._connection

    async def _connected(self) -> ServerLost:
        """Connect, and serve until the connection is lost; says why."""
        given = self._given()
        if isinstance(given, StdioServer) and await asyncio.to_thread(_is_missing, given):
            return ServerLost(reason=f"there is no program {given.command}", last_words="")
        try:
            process = await WorkerProcess.start(MODULE, self._basics)
        except OSError as error:
            return ServerLost(reason=f"its process did not start: {error}", last_words="")
        connection = _Connection(process, self.entry, self._delays)
        lost = ServerLost(reason="navi ends", last_words="")
        try:
            lost = await self._serve(process, connection, given)
        finally:
            self._connection = None
            self._up.clear()
            connection.lose(lost.reason)
            await _whole(_end(process, self._delays.leave))
        return lost

    async def _serve(
        self, process: WorkerProcess, connection: "_Connection", given: StdioServer | HttpServer
    ) -> ServerLost:
        try:
            await process.send(
                ConnectTo(
                    server=given,
                    tools=self.entry.tools,
                    timeout=self.entry.timeout,
                    secrets=secret_values(self.entry.variables),
                )
            )
            async with asyncio.timeout(self._delays.start):
                message = await _next(process)
            while True:
                match message:
                    case ToolsListed():
                        self._offer(message, connection)
                    case CallProgressed():
                        connection.progressed(message)
                    case CallEnded():
                        connection.ended(message)
                    case ServerLost():
                        return message
                message = await _next(process)
        except TimeoutError:
            why = f"it did not start within {self._delays.start:g} s"
        except ProcessEnded as error:
            why = connection.killed_for or f"the process that speaks to it was lost: {error}"
        return ServerLost(reason=why, last_words="")

    def _given(self) -> StdioServer | HttpServer:
        match self.entry.at:
            case StdioServer() as at:
                return replace(at, environment={**self._basics, **at.environment})
            case HttpServer() as at:
                return at

    def _offer(self, listed: ToolsListed, connection: "_Connection") -> None:
        entry = self.entry
        names = offered_names(entry.id, [tool.name for tool in listed.tools])
        self.tools = tuple(
            McpTool(
                tool,
                name=names[tool.name],
                server=self,
                source=f"{SOURCE}{entry.name}",
                trust=entry.trust,
                time_limit=self._delays.ready + entry.timeout + self._delays.late,
                allowed=self._allowed,
            )
            for tool in listed.tools
        )
        self.problems = tuple(
            replace(problem, name=f"{entry.name}: {problem.name}") for problem in listed.problems
        )
        if self._connection is None:
            log.info("mcp_server_up", server=entry.name, tools=len(self.tools))
        self._connection = connection
        self.trouble = None
        self._up.set()
        self._tried.set()


def _is_missing(server: StdioServer) -> bool:
    """Whether there is no such program: not worth a process that finds it out."""
    place = Path(server.cwd, server.command) if "/" in server.command else server.command
    return shutil.which(place, path=server.environment.get("PATH")) is None


async def _end(process: WorkerProcess, leave: float) -> None:
    await process.ask_to_end(seconds=leave)
    await process.end()


async def _whole(work: Coroutine[None, None, None]) -> None:
    """Do something to its end, also where this is cancelled meanwhile."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _next(process: WorkerProcess) -> FromProcess:
    return await process.receive(FromProcess, limit=MAX_ANSWER_BYTES)


class _Connection:
    """The calls that run in one process."""

    def __init__(self, process: WorkerProcess, entry: ServerEntry, delays: ServerDelays) -> None:
        self.calls: dict[int, _Call] = {}
        self.killed_for: str | None = None
        self._process = process
        self._timeout = entry.timeout
        self._late = delays.late
        self._numbers = count(1)

    async def call(self, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Call a tool and wait for what it gives."""
        number = next(self._numbers)
        answer: asyncio.Future[CallEnded | str] = asyncio.get_running_loop().create_future()
        self.calls[number] = _Call(answer, context.show)
        stop = asyncio.ensure_future(context.stop.wait())
        try:
            await self._process.send(
                CallTool(
                    number=number,
                    call_id=context.call_id,
                    tool=tool,
                    arguments=arguments,
                    workspace=str(context.workspace.absolute()),
                )
            )
            await asyncio.wait(
                {answer, stop},
                timeout=self._timeout + self._late,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not answer.done():
                return await self._give_up(number, stopped=stop.done())
        except ProcessEnded as error:
            return ToolResult(outcome="error", output=f"The server was lost: {error}")
        finally:
            stop.cancel()
            self.calls.pop(number, None)
        match answer.result():
            case CallEnded() as ended:
                return ToolResult(
                    outcome=ended.outcome, output=ended.output, truncated=ended.truncated
                )
            case reason:
                return ToolResult(
                    outcome="error", output=f"The server was lost before it answered: {reason}"
                )

    async def _give_up(self, number: int, *, stopped: bool) -> ToolResult:
        if stopped:
            await self._process.send(CancelCall(number=number))
            return ToolResult(
                outcome="unknown",
                output="stopped before the server had answered; what it has done by then is not known",
            )
        # Even the process that watches over the time did not say so: the server keeps it busy.
        self.killed_for = f"it did not let go within {self._timeout:g} s of a call"
        await self._process.end()
        return ToolResult(
            outcome="error", output=f"the server did not answer within {self._timeout:g} s"
        )

    def progressed(self, progress: CallProgressed) -> None:
        """Show how far a call is."""
        call = self.calls.get(progress.number)
        if call is not None and not call.answer.done():
            call.show(progress.text)

    def ended(self, ended: CallEnded) -> None:
        """Give a call its result."""
        call = self.calls.get(ended.number)
        if call is not None and not call.answer.done():
            call.answer.set_result(ended)

    def lose(self, reason: str) -> None:
        """End all calls: nobody answers them any more."""
        for call in self.calls.values():
            if not call.answer.done():
                call.answer.set_result(reason)


class _Call(Struct, frozen=True):
    """A call under way: what it waits for, and where how far it is is shown.

    Attributes:
        answer: its result, or why there is none.
    """

    answer: asyncio.Future[CallEnded | str]
    show: Callable[[str], None]
