"""Run one tool call and log its result."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import structlog
from msgspec import Struct

from navi.application.agent.find_tool import find_tool
from navi.application.agent.model_calls.recorders import InTurn
from navi.application.agent.policy import Policy
from navi.application.agent.show_output import ShownOutput
from navi.application.session.retry import with_retry
from navi.domain.agent.approvals import Ask, Deny, edit_mark
from navi.domain.agent.guidance import check_todo
from navi.domain.agent.profile import Profile
from navi.domain.log.secrets import Secrets
from navi.domain.session.turn import (
    INVALID_ARGUMENTS,
    ToolRun,
    is_broken,
)
from navi.domain.vocabulary.errors import BadInput, Fenced
from navi.domain.vocabulary.events import (
    ApprovalRequested,
    TodoItem,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
)
from navi.domain.vocabulary.ids import Owner
from navi.failpoints import failpoint
from navi.ports.clock import Clock
from navi.ports.tools import (
    AgentActions,
    Outputs,
    TodoChange,
    Tool,
    ToolBox,
    ToolContext,
    ToolResult,
    ToolUser,
)
from navi.ports.workspaces import Workspaces

log = structlog.get_logger()

CUT_OFF = "The call was cut off for length before its arguments were complete: it was not run."
STOP_GRACE = 0.8  # seconds a tool has to end by itself once the turn is to halt
LIMIT_GRACE = 60.0  # seconds beyond its own time limit that a tool has to end by itself

UserOf = Callable[[Owner], Awaitable[ToolUser]]


class WaitsForApproval(Exception):
    """The subagent of a call waits for a person: the call is left open, and run again after that."""


def no_such_tool(name: str) -> str:
    """What a call of a tool that is not offered is told; in logs, reruns know such a call by it."""
    return f"There is no tool {name!r} for you."


class RunToolOnce:
    """Runs tool calls; its dependencies are given once."""

    def __init__(
        self,
        tools: ToolBox,
        *,
        workspaces: Workspaces,
        outputs: Outputs,
        clock: Clock,
        policy: Policy,
        secrets: Secrets,
        user_of: UserOf,
    ) -> None:
        self._tools = tools
        self._policy = policy
        self._secrets = secrets
        self._outputs = outputs
        self._workspaces = workspaces
        self._clock = clock
        self._user_of = user_of
        # A tool that does not end when it is told to: kept so that its task has an owner.
        self._abandoned: set[asyncio.Task[ToolResult]] = set()

    async def __call__(
        self, recorder: InTurn, run: ToolRun, profile: Profile, actions: AgentActions
    ) -> None:
        """Run the call and log its result, success or error; or ask a person about it first.

        Where the actor is to halt and the tool does not end in time, the call is left open: the end
        of the turn, or of the subagent, answers it.

        Raises:
            Fenced: the turn is another's; nothing more may be done.
        """
        call = run.call
        running = _Running(recorder, run, actions, profile)
        start = () if run.started else (_started(call),)
        if run.cut_off:
            await recorder(_answered(call, "skipped", CUT_OFF))
            return
        tool = await find_tool(self._tools, call.name, recorder.halt)
        if recorder.halt.is_set() and self._tools.starting(call.name):
            return
        await failpoint("tool.before_start")
        # What has started is ended: a subagent at work has nobody else who takes its answer.
        if tool is not None and not run.started and not profile.enables(call.name):
            await recorder(_answered(call, "denied", self._instead(call, profile)))
            return
        complaint = self._instead(call, profile) if tool is None else _complaint(tool, call)
        if tool is None or complaint is not None:
            await recorder(*start, _answered(call, "error", complaint or ""))
            return
        if not run.started and not await self._may_run(recorder, tool, run):
            return
        await recorder(*start)
        await failpoint("tool.running")
        await self._run(running, tool)

    async def close(self) -> None:
        """Cancel and await tools that did not stop by themselves."""
        for task in self._abandoned:
            task.cancel()
        await asyncio.gather(*self._abandoned, return_exceptions=True)

    async def _may_run(self, recorder: InTurn, tool: Tool, run: ToolRun) -> bool:
        """Whether the call is to be run now; else what the policy says of it is logged."""
        record, call = recorder.record, run.call
        verdict = await self._policy.verdict(record, recorder.subagent_id, tool, run)
        match verdict:
            case Deny(reason=reason):
                await recorder(_answered(call, "denied", reason))
                return False
            case Ask(reason=reason, rule=rule, tool_rule=tool_rule) if run.decided is None:
                workspace = await self._workspaces.of(record.id)
                requested = ApprovalRequested(
                    call_id=call.id,
                    name=call.name,
                    arguments=call.arguments,
                    reason=reason,
                    preview=await self._policy.preview(tool, call.arguments, workspace),
                    rule=rule,
                    tool_rule=tool_rule,
                )
                await recorder(requested)
                return False
            case _:
                return True

    def _instead(self, call: ToolCall, profile: Profile) -> str:
        names = (tool.description.name for tool in self._tools.all())
        offered = ", ".join(name for name in names if profile.enables(name)) or "none"
        return f"{no_such_tool(call.name)} There are: {offered}."

    async def _run(self, running: "_Running", tool: Tool) -> None:
        record, halt = running.recorder.record, running.recorder.halt
        workspace, call = await self._workspaces.of(record.id), running.run.call
        shown = ShownOutput(call.id, self._secrets, self._clock)
        user = await with_retry(lambda: self._user_of(record.session.owner))
        context = ToolContext(
            session_id=record.id,
            user_id=record.session.owner,
            user_role=user.role,
            user_info={"id": record.session.owner, "name": user.name},
            call_id=call.id,
            workspace=workspace,
            stop=halt,
            todo=_Todo(running.recorder, validated=running.profile.step_validation_enabled),
            agent=running.actions,
            show=shown.add,
        )
        began = self._clock.monotonic()
        timeout = tool.description.time_limit + LIMIT_GRACE
        task = asyncio.ensure_future(_guarded(tool, call, context))
        showing = asyncio.ensure_future(shown.run(running.recorder))
        try:
            await _until_halt(task, halt, seconds=timeout)
        finally:
            in_time = task.done()  # by itself: soon it is cancelled
            if not in_time:
                self._abandon(task)
            shown.end()
            await showing
        if not in_time:
            if halt.is_set():
                return
            result = ToolResult(
                outcome="error", output=f"The tool did not end within {timeout:g} s."
            )
        else:
            try:
                result = task.result()
            except WaitsForApproval:
                return
            if halt.is_set() and result.outcome == "unknown":
                return  # what the end says of it anyway, after its subagent's answer
        await failpoint("tool.before_finish")
        duration_ms = round((self._clock.monotonic() - began) * 1000)
        said = result.output
        if running.run.edited:
            said = edit_mark(call.arguments) + said
        output = await self._outputs.bound(said, call_id=call.id, workspace=workspace)
        finished = ToolFinished(
            call_id=call.id,
            name=call.name,
            outcome=result.outcome,
            output=output.text,
            truncated=output.truncated or result.truncated,
            duration_ms=duration_ms,
        )
        await running.recorder(finished)
        await failpoint("tool.after_finish")

    def _abandon(self, task: "asyncio.Task[ToolResult]") -> None:
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.cancel()


class _Running(Struct, frozen=True):
    """A tool call under way: its recorder, how far it is, its actions on the agent, the profile it runs under."""

    recorder: InTurn
    run: ToolRun
    actions: AgentActions
    profile: Profile


class _Todo:
    """The session's todo list as a tool sees it; each change is an event."""

    def __init__(self, recorder: InTurn, *, validated: bool) -> None:
        self._recorder = recorder
        self._validated = validated

    async def change(self, changed: TodoChange) -> tuple[TodoItem, ...]:
        record = self._recorder.record
        # Until the change is in the list: subagents side by side have one list.
        async with record.changing_todo:
            before = (await with_retry(record.todo)).state.items
            after = changed(before)
            if after is None:
                return before
            refusal = check_todo(before, after, validation_required=self._validated)
            if refusal is not None:
                raise BadInput("status", refusal)
            await self._recorder(TodoUpdated(items=after))
            return after


def _started(call: ToolCall) -> ToolStarted:
    return ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments)


def _answered(call: ToolCall, outcome: ToolOutcome, why: str) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, outcome=outcome, output=why)


def _complaint(tool: Tool, call: ToolCall) -> str | None:
    if is_broken(call):
        return f"The arguments are not a JSON object: {call.arguments[INVALID_ARGUMENTS][:500]}"
    return tool.check(call.arguments)


async def _guarded(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult:
    """Run the tool; an exception becomes an error result for the model."""
    try:
        return await tool.run(call.arguments, context)
    except (Fenced, WaitsForApproval):
        raise  # the turn is another's, or a person's: nothing more is recorded
    except (Exception, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # from outside
        log.warning("tool_raised", tool=call.name, error=type(error).__name__)
        last = traceback.format_exception_only(error)[-1].strip()
        return ToolResult(outcome="error", output=f"The tool failed: {last}")


async def _until_halt(
    task: "asyncio.Task[ToolResult]", halt: asyncio.Event, *, seconds: float
) -> None:
    halted = asyncio.ensure_future(halt.wait())
    try:
        await asyncio.wait({task, halted}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if halt.is_set() and not task.done():
            await asyncio.wait({task}, timeout=STOP_GRACE)
    finally:
        halted.cancel()
