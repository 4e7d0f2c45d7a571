"""Serve tool calls from the recording: results, and effects on the session."""

import asyncio
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import msgspec

from navi.application.agent.model_calls.recorders import InTurn
from navi.application.agent.run_tool import RunToolOnce, no_such_tool
from navi.application.rerun.gate import Gate
from navi.application.session.record import Record
from navi.domain.agent.approvals import Allow, Ask, Deny, Verdict, edit_mark
from navi.domain.agent.planning import PROFILES
from navi.domain.agent.profile import Profile
from navi.domain.context.prompt import ToolSchema
from navi.domain.reading.recording import RecordedCall, Recording
from navi.domain.session.turn import SPAWN_AGENT, ToolRun
from navi.domain.vocabulary.events import (
    JsonObject,
    ProfileSwitched,
    TodoItem,
    TodoUpdated,
    ToolCall,
    ToolFinished,
)
from navi.domain.vocabulary.ids import CallId, Owner, SessionId, SubagentId
from navi.ports.pictures import NotShown, PreparedPicture
from navi.ports.tools import (
    AgentActions,
    BoundOutput,
    Tool,
    ToolContext,
    ToolDescription,
    ToolResult,
    ToolUser,
)

FOLLOWS = frozenset({"naming", "memory", "compression"})  # purposes of calls beside the turns

# The tool call in whose task somebody runs; None in the task of the agent itself.
TOOL_CALL: ContextVar[ToolCall | None] = ContextVar("tool_call", default=None)


def actor_here(recording: Recording) -> SubagentId | None:
    """The subagent whose task this is: it runs in the task of the call that spawned it."""
    call = TOOL_CALL.get()
    return None if call is None else recording.subagent_of(call.id)


class NothingShown:
    """The port ``Pictures``: what was shown stands in the recording."""

    async def prepare(self, session_id: SessionId, path: str) -> PreparedPicture:
        """Nothing is prepared anew."""
        raise NotShown(f"{path} of session {session_id} is not there in a rerun")


async def nobodys_user(user_id: Owner) -> ToolUser:
    """Whom recorded tools work for: they run nothing, and ask for nobody."""
    return ToolUser(role="user", name=user_id)


class RecordedRunTool(RunToolOnce):
    """`RunToolOnce` with the call in a context variable."""

    async def __call__(
        self, recorder: InTurn, run: ToolRun, profile: Profile, actions: AgentActions
    ) -> None:
        """Run the call, as ever."""
        TOOL_CALL.set(run.call)
        await super().__call__(recorder, run, profile, actions)


class RecordedTools:
    """The port ``ToolBox``: the tools that were offered at this place of the recording.

    Args:
        spawn: the real ``spawn_agent``: what subagents do is run again.
    """

    def __init__(self, gate: Gate, spawn: Tool) -> None:
        self._gate = gate
        self._spawn = spawn

    async def look(self) -> None:
        """The recording does not change."""

    def all(self) -> tuple[Tool, ...]:
        """The tools that the actor of this task is offered next, or was offered last."""
        recording = self._gate.recording
        current = TOOL_CALL.get()
        actor = actor_here(recording)
        if (
            current is not None and actor is None
        ):  # the answer to a call: by what was offered for it
            start = recording.started_at(current.id) or self._gate.seq
            call = recording.last_call(start, recording.at(max(1, start)).subagent_id)
        else:
            call = recording.next_call(self._gate.seq, actor)
        return tuple(self._tool(schema) for schema in offered(recording, call))

    def find(self, name: str) -> Tool | None:
        """The tool of that name, where there was one then."""
        current = TOOL_CALL.get()
        if current is None:
            return self._repeatable(name)
        if name == SPAWN_AGENT:
            return self._spawn
        answer = self._gate.recording.answer(current.id)
        if answer is not None and answer.output.startswith(no_such_tool(name)):
            return None if answer.outcome == "error" else self._tool(_named(name))
        return self._tool(_named(name))

    def starting(self, name: str) -> bool:
        """False: who waited for what stands in the recording."""
        del name
        return False

    def _repeatable(self, name: str) -> Tool | None:
        """For a take-over: the tool, where it was safe to run it again after its process had died."""
        recording = self._gate.recording
        for envelope in recording.batch(min(self._gate.seq + 1, recording.last)):
            if isinstance(envelope.event, ToolFinished) and envelope.event.name == name:
                return None
        return _RecordedTool(self._gate, _named(name), safe_to_repeat=True)

    def _tool(self, schema: ToolSchema) -> Tool:
        return _RecordedTool(self._gate, schema)


class BesideTools:
    """The port ``ToolBox`` for what follows a turn: what the next call beside the turns offered."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def look(self) -> None:
        """The recording does not change."""

    def all(self) -> tuple[Tool, ...]:
        """What the next call offered."""
        call = self._gate.recording.next_aside(self._gate.seq, FOLLOWS)
        tools = offered(self._gate.recording, call)
        return tuple(_RecordedTool(self._gate, schema) for schema in tools)

    def find(self, name: str) -> Tool | None:
        """None: nothing runs a tool beside the turns."""
        del name

    def starting(self, name: str) -> bool:
        """False: none will come."""
        del name
        return False


def offered(recording: Recording, call: RecordedCall | None) -> tuple[ToolSchema, ...]:
    """The tools of a call, as far as their text is kept."""
    digest = None if call is None else call.called.tools_sha256
    text = None if digest is None else recording.texts.get(digest)
    return () if text is None else msgspec.json.decode(text, type=tuple[ToolSchema, ...])


def planned_with(recording: Recording, call: RecordedCall) -> dict[str, str]:
    """Profiles by id that the question of a planning phase names."""
    if call.called.purpose not in ("planning", "review"):
        return {}
    text = recording.texts.get(call.called.tail_sha256 or "", "[]")
    first: list[JsonObject] = msgspec.json.decode(text)
    asked = str(first[0].get("content", "")) if first else ""
    return _listed(asked.partition(f"\n\n{PROFILES}\n")[2])


def _listed(lines: str) -> dict[str, str]:
    pairs = (line.removeprefix("- ").partition(": ") for line in lines.splitlines())
    return {name: text for name, colon, text in pairs if colon}


def _named(name: str, description: str = "") -> ToolSchema:
    return ToolSchema(name=name, description=description, parameters={})


class _RecordedTool:
    """A tool with recorded results and effects."""

    def __init__(self, gate: Gate, schema: ToolSchema, *, safe_to_repeat: bool = False) -> None:
        self._gate = gate
        self._schema = schema
        self._safe_to_repeat = safe_to_repeat

    @property
    def description(self) -> ToolDescription:
        return ToolDescription(
            name=self._schema.name,
            description=self._schema.description,
            parameters=self._schema.parameters,
            safe_to_repeat=self._safe_to_repeat,
            source="recording",
        )

    def check(self, arguments: JsonObject) -> str | None:
        """What was wrong with them then: such a call was begun and answered at once."""
        del arguments
        call, recording = TOOL_CALL.get(), self._gate.recording
        start = None if call is None else recording.started_at(call.id)
        answer = None if call is None else recording.answer(call.id)
        if start is None or answer is None or answer.outcome != "error":
            return None
        at_once = any(envelope.event is answer for envelope in recording.batch(start))
        return answer.output if at_once else None

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Repeat the recorded effects, then give the recorded result."""
        gate, recording = self._gate, self._gate.recording
        for effect in recording.effects(context.call_id):
            match effect.event:
                case TodoUpdated(items=items):
                    await gate.reached(effect.seq - 1)
                    await context.todo.change(partial(_as_recorded, items))
                case ProfileSwitched(to_profile=profile_id, by="tool", reason=reason):
                    await gate.reached(effect.seq - 1)
                    await context.agent.switch_profile(profile_id, reason or "")
                case _:
                    pass
        finished = recording.finished(context.call_id)
        if finished is None:
            await gate.reached(recording.last + 1)  # it never ended by itself
            raise asyncio.CancelledError
        seq, answer = finished
        await gate.reached(seq - 1)
        output = answer.output.removeprefix(edit_mark(arguments))  # which is put before it again
        return ToolResult(outcome=answer.outcome, output=output, truncated=answer.truncated)


def _as_recorded(items: tuple[TodoItem, ...], before: tuple[TodoItem, ...]) -> tuple[TodoItem, ...]:
    del before
    return items


class RecordedPolicy:
    """What the policy of that time said of each call: profiles and tools may say something else now."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def verdict(
        self, record: Record, subagent_id: SubagentId | None, tool: Tool, run: ToolRun
    ) -> Verdict:
        """As recorded: asked about, denied at once, or run."""
        del subagent_id, tool
        requested = self._recording.requested(run.call.id)
        # Of a rule that is decided nobody is asked any more, as in older logs: that is a difference.
        is_open = requested is not None and requested.rule not in record.session.decided
        if requested is not None and is_open and run.asked is None:
            return Ask(reason=requested.reason, rule=requested.rule, tool_rule=requested.tool_rule)
        answer = self._recording.answer(run.call.id)
        began = self._recording.started_at(run.call.id)
        if answer is not None and answer.outcome == "denied" and began is None:
            return Deny(reason=answer.output)
        return Allow()

    async def preview(self, tool: Tool, arguments: JsonObject, workspace: Path) -> str:
        """The one that was shown."""
        del tool, arguments, workspace
        call = TOOL_CALL.get()
        requested = None if call is None else self._recording.requested(call.id)
        return "" if requested is None else requested.preview


class AsRecorded:
    """The port ``Outputs``: the recording's outputs are within the limits."""

    async def bound(self, output: str, *, call_id: CallId, workspace: Path) -> BoundOutput:
        """The output as it is."""
        del call_id, workspace
        return BoundOutput(text=output, truncated=False)


class NoFiles:
    """The port ``Workspaces``: no tool of a rerun touches a file."""

    async def of(self, session_id: SessionId) -> Path:
        """A path that nobody uses."""
        return Path(session_id)

    async def copy(self, origin: SessionId, to: SessionId) -> int:
        """Nothing is there to be copied."""
        del origin, to
        return 0

    async def count(self, session_id: SessionId) -> int:
        """None."""
        del session_id
        return 0

    async def remove(self, session_id: SessionId) -> int:
        """Nothing is there to be removed."""
        del session_id
        return 0
