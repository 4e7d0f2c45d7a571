"""Run one tool call of a turn and record how it ended."""

import asyncio
import traceback

import structlog
from msgspec import Struct

from navi.application.ask_model import INVALID_ARGUMENTS
from navi.application.record import Record
from navi.domain.commands import Outcome, RecordOutcome, Runner
from navi.domain.events import TodoItem, TodoUpdated, ToolCall, ToolFinished, ToolStarted
from navi.domain.fold import Fold
from navi.domain.profile import Profile
from navi.domain.turn import RunTool
from navi.failpoints import failpoint
from navi.ports import Clock, Outputs, Tool, ToolBox, ToolContext, ToolResult, Workspaces
from navi.projections.todo import TodoState

log = structlog.get_logger()

STOP_GRACE = 0.8  # seconds a tool has to end by itself once the turn is to halt
TOOL_TIMEOUT = 900.0  # seconds; tools have shorter limits of their own


class RunToolOnce:
    """The step ``RunTool`` of a turn; what it needs is given once."""

    def __init__(
        self, tools: ToolBox, workspaces: Workspaces, outputs: Outputs, clock: Clock
    ) -> None:
        self._tools = tools
        self._outputs = outputs
        self._workspaces = workspaces
        self._clock = clock
        # A tool that does not end when it is told to: kept so that its task has an owner.
        self._abandoned: set[asyncio.Task[ToolResult]] = set()

    async def __call__(
        self, record: Record, runner: Runner, step: RunTool, profile: Profile
    ) -> None:
        """Run the call; its result, good or bad, stands in the log afterwards.

        Where the turn is to halt and the tool does not end in time, the call is left open: the end
        of the turn answers it.

        Raises:
            Fenced: the turn is another's; nothing more may be done.
        """
        call = step.call
        running = _Running(record, runner, call)
        tool = self._find(call, profile)
        complaint = tool if isinstance(tool, str) else _complaint(tool, call)
        start = () if step.started else (_started(call),)
        await failpoint("tool.before_start")
        if complaint is not None or isinstance(tool, str):
            await running.record(*start, _refused(call, complaint or ""))
            return
        await running.record(*start)
        await failpoint("tool.running")
        await self._run(running, tool)

    async def close(self) -> None:
        """End what did not end by itself."""
        for task in self._abandoned:
            task.cancel()
        await asyncio.gather(*self._abandoned, return_exceptions=True)

    def _find(self, call: ToolCall, profile: Profile) -> Tool | str:
        offered = [
            tool.description.name
            for tool in self._tools.all()
            if profile.enables(tool.description.name)
        ]
        tool = self._tools.find(call.name)
        if tool is None or call.name not in offered:
            return f"There is no tool {call.name!r}. There are: {', '.join(offered) or 'none'}."
        return tool

    async def _run(self, running: "_Running", tool: Tool) -> None:
        workspace = await self._workspaces.of(running.owner.id)
        todo = _Todo(running, await running.owner.todo())
        context = ToolContext(
            session_id=running.owner.id,
            user_id=running.owner.session.owner,
            call_id=running.call.id,
            workspace=workspace,
            stop=running.owner.halt,
            todo=todo,
        )
        began = self._clock.monotonic()
        task = asyncio.ensure_future(_guarded(tool, running.call, context))
        try:
            await _until_halt(task, running.owner.halt)
        finally:
            if not task.done():
                self._abandon(task)
        if not task.done():
            if running.owner.halt.is_set():
                return
            result = ToolResult(
                outcome="error", output=f"The tool did not end within {TOOL_TIMEOUT:g} s."
            )
        else:
            result = task.result()
        await failpoint("tool.before_finish")
        duration_ms = round((self._clock.monotonic() - began) * 1000)
        output = await self._outputs.bound(
            result.output, call_id=running.call.id, workspace=workspace
        )
        finished = ToolFinished(
            call_id=running.call.id,
            name=running.call.name,
            outcome=result.outcome,
            output=output.text,
            truncated=output.truncated or result.truncated,
            duration_ms=duration_ms,
        )
        await running.record(finished)
        await failpoint("tool.after_finish")

    def _abandon(self, task: "asyncio.Task[ToolResult]") -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.cancel()


class _Running(Struct, frozen=True):
    """A tool call, and where its outcome is recorded."""

    owner: Record
    runner: Runner
    call: ToolCall

    async def record(self, *events: Outcome) -> None:
        if events:
            await self.owner.execute(RecordOutcome(runner=self.runner, events=events), patient=True)


class _Todo:
    """The session's todo list as a tool sees it; each change is an event."""

    def __init__(self, running: _Running, fold: Fold[TodoState]) -> None:
        self._running = running
        self._fold = fold

    def items(self) -> tuple[TodoItem, ...]:
        return self._fold.state.items

    async def replace(self, items: tuple[TodoItem, ...]) -> None:
        await self._running.record(TodoUpdated(items=items))


def _started(call: ToolCall) -> ToolStarted:
    return ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments)


def _refused(call: ToolCall, why: str) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, outcome="error", output=why)


def _complaint(tool: Tool, call: ToolCall) -> str | None:
    raw = call.arguments.get(INVALID_ARGUMENTS)
    if len(call.arguments) == 1 and isinstance(raw, str):
        return f"The arguments are not a JSON object: {raw[:500]}"
    return tool.check(call.arguments)


async def _guarded(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    """A tool's result, also where it raised: the model is told, the turn goes on."""
    try:
        return await tool.run(call.arguments, context)
    except Exception as error:  # noqa: BLE001 - a border: a tool may raise anything
        log.warning("tool_raised", tool=call.name, error=type(error).__name__)
        last = traceback.format_exception_only(error)[-1].strip()
        return ToolResult(outcome="error", output=f"The tool failed: {last}")


async def _until_halt(task: "asyncio.Task[ToolResult]", halt: asyncio.Event) -> None:
    halted = asyncio.ensure_future(halt.wait())
    try:
        await asyncio.wait(
            {task, halted}, timeout=TOOL_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
        if halt.is_set() and not task.done():
            await asyncio.wait({task}, timeout=STOP_GRACE)
    finally:
        halted.cancel()
