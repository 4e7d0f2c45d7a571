"""An open turn: what the agent is doing, and what it does next."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.errors import FailureKind
from navi.domain.events import (
    AgentEvent,
    Envelope,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    Purpose,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnResumed,
    Usage,
)
from navi.domain.ids import CallId, NodeId, SubagentId, TurnId

MAX_DEATHS = 3  # processes a turn may take with it before it is given up
HANDED_OVER = "handed_over"  # reason of a turn_resumed after a clean good-bye
DIED = "node_died"


class OpenCall(Struct, frozen=True, kw_only=True):
    """A model call that has no answer yet; ``seq`` is of its ``model_called``."""

    id: CallId
    seq: int
    purpose: Purpose
    model: str
    backend: str


class Attempt(Struct, frozen=True, kw_only=True):
    """A model call that failed, since the last one that was answered."""

    backend: str
    model: str
    kind: FailureKind
    error: str
    will_retry: bool


class ToolRun(Struct, frozen=True, kw_only=True):
    """A tool call of the last reply that has no result yet."""

    call: ToolCall
    started: bool = False


class Actor(Struct, frozen=True, kw_only=True):
    """The agent of the turn, or one of its subagents.

    Attributes:
        iterations: model calls of purpose ``turn`` that were answered.
        replied: whether the last thing that happened is a reply that asks for no tool.
        attempts: failures since the last reply; a process's death is not among them.
    """

    iterations: int = 0
    call: OpenCall | None = None
    tools: tuple[ToolRun, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    replied: bool = False


class Turn(Struct, frozen=True, kw_only=True):
    """A turn between its start and its end.

    Attributes:
        attempt: 1 for the process that opened it, one more for each that took it over.
        deaths: processes that died over it.
        usage: tokens of all its calls so far.
        actors: by subagent id; the agent itself under the empty name.
    """

    id: TurnId
    node: NodeId
    planning: bool
    attempt: int = 1
    deaths: int = 0
    stop_by: str | None = None
    delivered: tuple[int, ...] = ()
    usage: Usage = Usage()
    actors: dict[str, Actor] = {}

    def actor(self, subagent_id: SubagentId | None) -> Actor:
        """The state of the agent (None) or of a subagent."""
        return self.actors.get(subagent_id or "", Actor())


def evolve_turn(turn: Turn, envelope: Envelope) -> Turn:
    """The open turn after an event; total."""
    match envelope.event:
        case MessageDelivered(message_seq=seq):
            return replace(turn, delivered=(*turn.delivered, seq))
        case StopRequested(by=by):
            return replace(turn, stop_by=turn.stop_by or by)
        case TurnResumed(node=node, attempt=attempt, reason=reason):
            deaths = turn.deaths + (reason != HANDED_OVER)
            return replace(turn, node=node, attempt=attempt, deaths=deaths)
        case event:
            before = turn.actor(envelope.subagent_id)
            after = _evolve_actor(before, event, seq=envelope.seq)
            if isinstance(event, ModelReplied):
                turn = replace(turn, usage=add_usage(turn.usage, event.usage))
            if after is before:
                return turn
            return replace(turn, actors={**turn.actors, envelope.subagent_id or "": after})


def _evolve_actor(actor: Actor, event: AgentEvent, *, seq: int) -> Actor:
    match event:
        case ModelCalled():
            call = OpenCall(
                id=event.call_id,
                seq=seq,
                purpose=event.purpose,
                model=event.model,
                backend=event.backend,
            )
            return replace(actor, call=call, replied=False)
        case ModelReplied() if actor.call is not None and actor.call.id == event.call_id:
            if actor.call.purpose != "turn":
                return replace(actor, call=None, attempts=())
            return replace(
                actor,
                call=None,
                attempts=(),
                iterations=actor.iterations + 1,
                tools=tuple(ToolRun(call=call) for call in event.tool_calls),
                replied=not event.tool_calls,
            )
        case ModelCallFailed() if actor.call is not None and actor.call.id == event.call_id:
            if event.kind in ("stopped", "interrupted"):
                return replace(actor, call=None)
            attempt = Attempt(
                backend=actor.call.backend,
                model=actor.call.model,
                kind=event.kind,
                error=event.error,
                will_retry=event.will_retry,
            )
            return replace(actor, call=None, attempts=(*actor.attempts, attempt))
        case ToolStarted(call_id=call_id):
            tools = tuple(
                replace(run, started=True) if run.call.id == call_id else run for run in actor.tools
            )
            return replace(actor, tools=tools)
        case ToolFinished(call_id=call_id):
            return replace(actor, tools=tuple(r for r in actor.tools if r.call.id != call_id))
        case SubagentStarted() | SubagentFinished():
            return actor
        case _:
            return actor


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum; None counts as unknown, so that only two unknowns stay unknown."""

    def add(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    return Usage(
        prompt_tokens=add(one.prompt_tokens, other.prompt_tokens),
        completion_tokens=add(one.completion_tokens, other.completion_tokens),
    )


# --- open operations ----------------------------------------------------------------------------


class OpenModelCall(Struct, frozen=True, kw_only=True):
    """A model call without an answer."""

    subagent_id: SubagentId | None
    call: OpenCall


class OpenTool(Struct, frozen=True, kw_only=True):
    """A tool call without a result."""

    subagent_id: SubagentId | None
    call: ToolCall
    started: bool


OpenOperation = OpenModelCall | OpenTool


def open_operations(turn: Turn) -> tuple[OpenOperation, ...]:
    """Everything in the turn that still owes its one answer; subagents before the agent."""
    found: list[OpenOperation] = []
    for name in sorted(turn.actors, reverse=True):
        actor = turn.actors[name]
        subagent_id = SubagentId(name) if name else None
        if actor.call is not None:
            found.append(OpenModelCall(subagent_id=subagent_id, call=actor.call))
        found.extend(
            OpenTool(subagent_id=subagent_id, call=run.call, started=run.started)
            for run in actor.tools
        )
    return tuple(found)


# --- what comes next ----------------------------------------------------------------------------


class Deliver(Struct, frozen=True, kw_only=True):
    """Messages are due to be shown to the model."""


class AskModel(Struct, frozen=True, kw_only=True):
    """Ask the model; ``last`` is the one call without tools after the limit of iterations."""

    iteration: int
    last: bool
    attempts: tuple[Attempt, ...]


class RunTool(Struct, frozen=True, kw_only=True):
    """Run a tool call; ``started`` where its start stands in the log already."""

    call: ToolCall
    started: bool


class Finish(Struct, frozen=True, kw_only=True):
    """Nothing is left to do in this turn."""

    why: Literal["completed", "limit_reached", "stopped", "failed"]
    by: str = ""
    kind: str = ""
    error: str = ""


TurnStep = Deliver | AskModel | RunTool | Finish


def next_turn_step(turn: Turn, *, due: bool, max_iterations: int) -> TurnStep:
    """What the agent does next in an open turn.

    Args:
        due: whether a message waits that this turn's next model call must see.
        max_iterations: calls with tools a turn may make.
    """
    agent = turn.actor(None)
    if turn.stop_by is not None:
        return Finish(why="stopped", by=turn.stop_by)
    if agent.tools:
        return RunTool(call=agent.tools[0].call, started=agent.tools[0].started)
    if agent.attempts and not agent.attempts[-1].will_retry:
        last = agent.attempts[-1]
        return Finish(why="failed", kind=last.kind, error=last.error)
    if agent.replied:
        reached = agent.iterations > max_iterations
        return Finish(why="limit_reached" if reached else "completed")
    if due:
        return Deliver()
    return AskModel(
        iteration=agent.iterations + 1,
        last=agent.iterations >= max_iterations,
        attempts=agent.attempts,
    )
