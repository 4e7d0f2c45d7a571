"""An open turn: what the agent is doing, and what it does next."""

from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.domain.agent.guidance import Progress, evolve_progress
from navi.domain.model_calls.repetition import FOR_FOLLOW_UPS, repetition_in
from navi.domain.session.commands import Completed, Ending, Failed, Stopped
from navi.domain.spending.budgets import BUDGET, budget_words
from navi.domain.spending.call_tokens import tokens_of
from navi.domain.vocabulary.errors import FailureKind
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    CompressionFailed,
    ContextCompressed,
    Decision,
    Envelope,
    GuidanceGiven,
    JsonObject,
    MemoryRecalled,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    Purpose,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnResumed,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, NodeId, SubagentId, TurnId

SPAWN_AGENT = "spawn_agent"  # the tool whose calls are answered by subagents
SUBAGENT_SECONDS = 3600.0  # for all that a subagent does
MAX_SIDE_BY_SIDE = 4  # subagents of one reply that are at work at the same time
MAX_DEPTH = 2  # a subagent of a subagent is the last
MAX_SPAWNED = 32  # subagents a turn may have in all
COMPRESS_AGAIN = 2  # iterations after a summary that was of no use: the context has grown by then
MAX_DEATHS = 3  # processes a turn may take with it before it is given up
FAILED = "failed"  # verdict on a phase of planning whose call failed for good
HANDED_OVER = "handed_over"  # reason of a turn_resumed after a clean good-bye
DIED = "node_died"
WAITED = "waited"  # the turn waited for a person, and no process had anything to do with it
FOR_LENGTH = "length"  # finish_reason of an answer that was cut off
CONTEXT_OVERFLOW = "context_overflow"  # kind of turn_failed
INVALID_ARGUMENTS = "invalid_json"  # key under which arguments stand that are not a JSON object


class OpenCall(Struct, frozen=True, kw_only=True):
    """A model call that has no answer yet; ``seq`` is of its ``model_called``.

    Attributes:
        prompt_estimate: tokens of its prompt; absent in logs of before.
        without_tools: whether it offered none.
    """

    id: CallId
    seq: int
    purpose: Purpose
    model: str
    backend: str
    prompt_estimate: int | UnsetType = UNSET
    without_tools: bool = False


class Attempt(Struct, frozen=True, kw_only=True):
    """A model call that failed, since the last one that was answered.

    Attributes:
        not_ready_at: when the server was found to be loading, or not there, or when the turn was
            taken over after that; None where it was there. Such an attempt is no try.
        mended: whether the next request has another form: it goes to the same model.
    """

    backend: str
    model: str
    kind: FailureKind
    error: str
    will_retry: bool
    not_ready_at: datetime | None = None
    mended: bool = False


class Asked(Struct, frozen=True, kw_only=True):
    """A person was asked about a tool call; ``seq`` and ``at`` are of the request.

    Attributes:
        tool_rule: as of ``ApprovalRequested``.
        replaced: the arguments that it was asked with, where the person has given others.
    """

    seq: int
    at: datetime
    rule: str
    tool_rule: str | UnsetType = UNSET
    replaced: JsonObject | None = None


class ToolRun(Struct, frozen=True, kw_only=True):
    """A tool call of the last reply that has no result yet.

    Attributes:
        cut_off: its arguments were cut off for length: it is not run.
        asked: set where a person was asked about it.
        decided: what the person said; None before that.
        edited: whether the arguments are the person's, and not the model's.
    """

    call: ToolCall
    started: bool = False
    cut_off: bool = False
    asked: Asked | None = None
    decided: Decision | None = None
    edited: bool = False

    @property
    def undecided(self) -> bool:
        """Whether it waits for a person's decision."""
        return self.asked is not None and self.decided is None


class PlanStage(Struct, frozen=True, kw_only=True):
    """How far the planning of an actor is.

    Attributes:
        analysis: what phase 1 found; None before it.
        review: what phase 2 found; None before it, or where it is left out.
        done: whether there is nothing more to plan.
    """

    analysis: str | None = None
    review: str | None = None
    reflect: bool = False
    done: bool = False


CutOff = Literal["", "answer", "call", "circle"]


class Actor(Struct, frozen=True, kw_only=True):
    """The agent of the turn, or one of its subagents.

    Attributes:
        iterations: model calls of purpose ``turn`` that were answered.
        without_tools: whether the last of them offered no tools.
        replied: whether the last thing that happened is a reply that asks for no tool.
        cut_off: what of the last reply was cut off for length: its text, or the arguments of a call;
            ``circle`` where it repeated itself at its end, so that there is nothing to go on with.
        attempts: failures since the last reply; a process's death is not among them.
        failed_call: the call that the last of them was.
        compressed_at: iterations at the last try to compress its context; None before one.
        compression_failed: whether that try came to nothing.
        spawned_by: the ``spawn_agent`` call that a subagent answers.
        parent: who made that call; the agent itself under the empty name.
        profile_id: a subagent's; the agent itself has the session's.
        began: when a subagent was started; later by the time it has waited for people.
        waits_since: when the first of its calls that wait for a person began to; None without one.
        goal: what it is there for: the subagent's task.
        answer: its last words.
    """

    iterations: int = 0
    without_tools: bool = False
    call: OpenCall | None = None
    tools: tuple[ToolRun, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    failed_call: CallId | None = None
    replied: bool = False
    cut_off: CutOff = ""
    compressed_at: int | None = None
    compression_failed: bool = False
    plan: PlanStage = PlanStage()
    progress: Progress = Progress()
    spawned_by: CallId | None = None
    parent: str = ""
    profile_id: str = ""
    began: datetime | None = None
    waits_since: datetime | None = None
    goal: str = ""
    answer: str = ""


_NEW_ACTOR = Actor()  # of whom nothing is known yet; asked for with every event


class Turn(Struct, frozen=True, kw_only=True):
    """A turn between its start and its end.

    Attributes:
        attempt: 1 for the process that opened it, one more for each that took it over.
        plain: whoever sent its message waits for the answer: nobody plans, no subagent either.
        deaths: processes that died over it.
        parked: all of it waits, or has waited, for people, and no process has gone on with it since.
        usage: tokens of all its calls so far, as servers counted them.
        spent: the same, with estimates for what they did not count: what its budget is held against.
        budget: the budget that is used up; nothing more is asked of a model.
        actors: by subagent id; the agent itself under the empty name. Subagents that came back are
            not among them.
        spawned: how many subagents the turn has had.
        returned: what subagents came back with, by the call that is still to be answered with it.
        recalled: what was put before the model of the memory; None before that, or where it is empty.
        recalled_ids: the memories it names.
        recalled_beside: whether it stands in the context, and not in the system message.
    """

    id: TurnId
    node: NodeId
    planning: bool
    plain: bool = False
    attempt: int = 1
    deaths: int = 0
    parked: bool = False
    stop_by: str | None = None
    delivered: tuple[int, ...] = ()
    usage: Usage = Usage()
    spent: int = 0
    budget: BudgetReached | None = None
    actors: dict[str, Actor] = {}
    spawned: int = 0
    returned: dict[CallId, SubagentFinished] = {}
    recalled: str | None = None
    recalled_ids: tuple[str, ...] = ()
    recalled_beside: bool = False

    def actor(self, subagent_id: SubagentId | None) -> Actor:
        """The state of the agent (None) or of a subagent."""
        return self.actors.get(subagent_id or "", _NEW_ACTOR)

    def undecided(self, call_id: CallId) -> tuple[str, ToolRun | None]:
        """A call that waits for a person's decision, and the name of its actor; None without one."""
        for name, actor in self.actors.items():
            for run in actor.tools:
                if run.call.id == call_id and run.undecided:
                    return name, run
        return "", None

    def owner_of(self, call_id: CallId) -> str | None:
        """Under which name the actor stands that made a tool call which is running; None without."""
        for name, actor in self.actors.items():
            if any(run.call.id == call_id and run.started for run in actor.tools):
                return name
        return None

    def subagent_of(self, call_id: CallId) -> SubagentId | None:
        """The subagent that answers a ``spawn_agent`` call, while it is at work."""
        for name, actor in self.actors.items():
            if name and actor.spawned_by == call_id:
                return SubagentId(name)
        return None

    def below(self, subagent_id: SubagentId) -> frozenset[str]:
        """The subagents that a subagent has spawned, and theirs, as far as they are at work."""
        own = {name for name, actor in self.actors.items() if name and actor.parent == subagent_id}
        return frozenset(own).union(*(self.below(SubagentId(name)) for name in own))

    def depth(self, subagent_id: SubagentId | None) -> int:
        """How deep an actor is nested; 0 for the agent itself."""
        depth, name = 0, subagent_id or ""
        while name and depth <= len(self.actors):
            depth, name = depth + 1, self.actor(SubagentId(name)).parent
        return depth


def evolve_turn(turn: Turn, envelope: Envelope) -> Turn:
    """The open turn after an event; total."""
    after = _evolve_turn(turn, envelope)
    parked = turn_waits(after) or (turn.parked and isinstance(envelope.event, _FROM_OUTSIDE))
    return after if parked == after.parked else replace(after, parked=parked)


# What may happen to a turn that nobody runs; the answer to a denied call comes with the decision.
_FROM_OUTSIDE = ApprovalDecided | ToolFinished | StopRequested | MemoryRecalled


def _evolve_turn(turn: Turn, envelope: Envelope) -> Turn:
    match envelope.event:
        case MessageDelivered(message_seq=seq):
            return replace(turn, delivered=(*turn.delivered, seq))
        case StopRequested(by=by):
            return replace(turn, stop_by=turn.stop_by or by)
        case TurnResumed(node=node, attempt=attempt, reason=reason):
            deaths = turn.deaths + (reason not in (HANDED_OVER, WAITED))
            turn = replace(turn, node=node, attempt=attempt, deaths=deaths)
            return _waits_anew(turn, at=envelope.at)
        case TodoUpdated() as event:
            return _todo_updated(turn, envelope.subagent_id or "", event)
        case MemoryRecalled(memory_ids=memory_ids, content=content, beside=beside):
            return replace(
                turn,
                recalled=content,
                recalled_ids=memory_ids,
                recalled_beside=beside is True,
            )
        case ApprovalDecided() as event:
            return _decided(turn, event, at=envelope.at)
        case BudgetReached() as event:
            return replace(turn, budget=turn.budget or event)
        case SubagentStarted() as event if envelope.subagent_id is not None:
            return _spawn(turn, envelope.subagent_id, event, at=envelope.at)
        case SubagentFinished() as event if envelope.subagent_id is not None:
            actors = {n: a for n, a in turn.actors.items() if n != envelope.subagent_id}
            returned = {**turn.returned, event.call_id: event}
            return replace(turn, actors=actors, returned=returned)
        case event:
            before = turn.actor(envelope.subagent_id)
            after = _evolve_actor(before, event, seq=envelope.seq, at=envelope.at)
            if isinstance(event, ModelReplied):
                turn = replace(turn, usage=add_usage(turn.usage, event.usage))
            if isinstance(event, ModelReplied | ModelCallFailed):
                turn = replace(turn, spent=turn.spent + tokens_of(event).total)
            if isinstance(event, ToolFinished) and event.call_id in turn.returned:
                left = {k: v for k, v in turn.returned.items() if k != event.call_id}
                turn = replace(turn, returned=left)
            if after is before:
                return turn
            return replace(turn, actors={**turn.actors, envelope.subagent_id or "": after})


def _waits_anew(turn: Turn, *, at: datetime) -> Turn:
    """The turn, the waiting of its actors for their model servers begun anew.

    Nobody has looked at a server while no process had the turn: after a restart of the machine it
    may come later than navi.
    """
    actors = {
        name: replace(
            actor,
            attempts=tuple(
                attempt if attempt.not_ready_at is None else replace(attempt, not_ready_at=at)
                for attempt in actor.attempts
            ),
        )
        for name, actor in turn.actors.items()
    }
    return replace(turn, actors=actors)


def _todo_updated(turn: Turn, by: str, event: TodoUpdated) -> Turn:
    """The list is everybody's: what one actor gets done is progress of all."""
    actors = {
        name: replace(
            actor,
            progress=evolve_progress(
                actor.progress, event, iterations=actor.iterations, answers=name in ("", by)
            ),
        )
        for name, actor in turn.actors.items()
    }
    return replace(turn, actors=actors)


def _decided(turn: Turn, event: ApprovalDecided, *, at: datetime) -> Turn:
    name, run = turn.undecided(event.call_id)
    if run is None:
        return turn
    edited = event.arguments is not None
    call = run.call if event.arguments is None else replace(run.call, arguments=event.arguments)
    asked = replace(run.asked, replaced=run.call.arguments) if edited and run.asked else run.asked
    after = replace(run, call=call, asked=asked, decided=event.decision, edited=edited)
    actor = turn.actors[name]
    tools = tuple(after if r is run else r for r in actor.tools)
    if any(r.undecided for r in tools):
        return replace(turn, actors={**turn.actors, name: replace(actor, tools=tools)})
    waited = at - (actor.waits_since or at)
    turn = replace(
        turn, actors={**turn.actors, name: replace(actor, tools=tools, waits_since=None)}
    )
    return _given_time(turn, name, waited)


def _given_time(turn: Turn, name: str, waited: timedelta) -> Turn:
    """The turn, its subagents given the time that one of them has waited for a person."""
    actors = dict(turn.actors)
    for _ in range(MAX_DEPTH):
        actor = actors.get(name)
        if not name or actor is None:
            break
        if actor.began is not None:
            actors[name] = replace(actor, began=actor.began + waited)
        name = actor.parent
    return replace(turn, actors=actors)


def _spawn(turn: Turn, subagent_id: SubagentId, event: SubagentStarted, *, at: datetime) -> Turn:
    actor = Actor(
        spawned_by=event.call_id,
        parent=turn.owner_of(event.call_id) or "",
        profile_id=event.profile_id,
        began=at,
        goal=event.task,
        progress=Progress(statuses=turn.actor(None).progress.statuses),
    )
    return replace(turn, actors={**turn.actors, subagent_id: actor}, spawned=turn.spawned + 1)


def _evolve_actor(actor: Actor, event: AgentEvent, *, seq: int, at: datetime) -> Actor:
    progress = evolve_progress(actor.progress, event, iterations=actor.iterations)
    if progress is not actor.progress:
        actor = replace(actor, progress=progress)
    match event:
        case ModelCalled():
            return _called(actor, event, seq=seq)
        case ModelReplied() if actor.call is not None and actor.call.id == event.call_id:
            return _replied(actor, event, call=actor.call)
        case ModelCallFailed(kept=int()) if (
            actor.call is not None and actor.call.id == event.call_id
        ):
            return _kept(actor, event, call=actor.call)
        case ModelCallFailed() if actor.call is not None and actor.call.id == event.call_id:
            return _failed(actor, event, call=actor.call, at=at)
        case PlanningPhaseCompleted():
            return replace(actor, plan=_planned(actor.plan, event), attempts=())
        case GuidanceGiven(kind="continue"):
            return replace(actor, replied=False)
        case ApprovalRequested(call_id=call_id, rule=rule, tool_rule=tool_rule):
            asked = Asked(seq=seq, at=at, rule=rule, tool_rule=tool_rule)
            tools = tuple(
                replace(run, asked=asked) if run.call.id == call_id else run for run in actor.tools
            )
            return replace(actor, tools=tools, waits_since=actor.waits_since or at)
        case ToolStarted(call_id=call_id):
            tools = tuple(
                replace(run, started=True) if run.call.id == call_id else run for run in actor.tools
            )
            return replace(actor, tools=tools)
        case ToolFinished(call_id=call_id):
            return replace(actor, tools=tuple(r for r in actor.tools if r.call.id != call_id))
        case ContextCompressed():
            return replace(actor, compressed_at=actor.iterations, compression_failed=False)
        case CompressionFailed():
            return _not_compressed(actor)
        case _:
            return actor


def _called(actor: Actor, event: ModelCalled, *, seq: int) -> Actor:
    call = OpenCall(
        id=event.call_id,
        seq=seq,
        purpose=event.purpose,
        model=event.model,
        backend=event.backend,
        prompt_estimate=event.prompt_estimate,
        without_tools=event.tools_sha256 is None,
    )
    return replace(actor, call=call, replied=False)


def _replied(actor: Actor, event: ModelReplied, *, call: OpenCall) -> Actor:
    if call.purpose == "compression":  # what a turn's call was refused for is not answered by it
        return replace(actor, call=None)
    actor = replace(actor, call=None, attempts=())
    if call.purpose != "turn":
        return actor
    for_length = event.finish_reason == FOR_LENGTH
    runs = tuple(
        ToolRun(call=asked, cut_off=for_length and is_broken(asked)) for asked in event.tool_calls
    )
    cut_off: CutOff = "answer" if for_length and not runs else ""
    if cut_off and repetition_in(event.content, FOR_FOLLOW_UPS) is not None:
        cut_off = "circle"  # it would only go on with that
    return replace(
        actor,
        iterations=actor.iterations + 1,
        without_tools=call.without_tools,
        tools=runs,
        replied=not event.tool_calls,
        cut_off="call" if any(run.cut_off for run in runs) else cut_off,
        # What was cut off goes on in the next reply.
        answer=actor.answer + event.content if actor.cut_off == "answer" else event.content,
    )


def _kept(actor: Actor, event: ModelCallFailed, *, call: OpenCall) -> Actor:
    """A call that ran in circles after it had answered is as good as a reply."""
    before = actor.answer if actor.cut_off == "answer" else ""
    return replace(
        actor,
        call=None,
        attempts=(),
        iterations=actor.iterations + 1,
        without_tools=call.without_tools,
        replied=True,
        cut_off="circle",
        answer=before + event.answer,
    )


def is_broken(call: ToolCall) -> bool:
    """Whether the arguments of a call are not a JSON object: they stand there as they came."""
    return len(call.arguments) == 1 and isinstance(call.arguments.get(INVALID_ARGUMENTS), str)


def _failed(actor: Actor, event: ModelCallFailed, *, call: OpenCall, at: datetime) -> Actor:
    actor = replace(actor, call=None)
    if event.kind in ("stopped", "interrupted"):
        return actor
    attempt = Attempt(
        backend=call.backend,
        model=call.model,
        kind=event.kind,
        error=event.error,
        will_retry=event.will_retry,
        not_ready_at=at if event.not_ready is True else None,
        mended=event.mended is True,
    )
    # A summary that cannot be had leaves the context as it is: the turn goes on without it.
    if call.purpose == "compression":
        return actor if event.will_retry else _not_compressed(actor)
    if event.kind == "overflow":  # however lately its context was compressed: it was not enough
        actor = replace(actor, compressed_at=None)
    return replace(actor, attempts=(*actor.attempts, attempt), failed_call=call.id)


def _not_compressed(actor: Actor) -> Actor:
    return replace(actor, compressed_at=actor.iterations, compression_failed=True)


def _planned(plan: PlanStage, event: PlanningPhaseCompleted) -> PlanStage:
    if event.verdict == FAILED:
        return replace(plan, done=True)
    match event.phase:
        case 1:
            direct, reflect = event.verdict == "direct", event.verdict == "reflect"
            return PlanStage(analysis=event.output, reflect=reflect, done=direct)
        case 2:
            return replace(plan, review=event.output)
        case 3:
            return replace(plan, done=True)


def add_usage(one: Usage, other: Usage) -> Usage:
    """The sum; None counts as unknown, so that only two unknowns stay unknown."""

    def add(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    def add_known(a: int | UnsetType, b: int | UnsetType) -> int | UnsetType:
        return b if a is UNSET else a if b is UNSET else a + b

    return Usage(
        prompt_tokens=add(one.prompt_tokens, other.prompt_tokens),
        completion_tokens=add(one.completion_tokens, other.completion_tokens),
        cached_tokens=add_known(one.cached_tokens, other.cached_tokens),
    )


# --- open operations ----------------------------------------------------------------------------


class OpenModelCall(Struct, frozen=True, kw_only=True):
    """A model call without an answer."""

    subagent_id: SubagentId | None
    call: OpenCall


class OpenTool(Struct, frozen=True, kw_only=True):
    """A tool call without a result; ``undecided`` where it waits for a person."""

    subagent_id: SubagentId | None
    call: ToolCall
    started: bool
    undecided: bool = False


class OpenSubagent(Struct, frozen=True, kw_only=True):
    """A subagent that did not come back."""

    subagent_id: SubagentId
    call_id: CallId


OpenOperation = OpenModelCall | OpenTool | OpenSubagent


def open_operations(turn: Turn) -> tuple[OpenOperation, ...]:
    """Everything in the turn that still owes its one answer, in the order in which to answer it.

    The deepest actors come first, and a subagent after what it left open itself: so each answer
    stands before the one that depends on it.
    """
    found: list[OpenOperation] = []
    by_depth = sorted(turn.actors, key=lambda n: (-turn.depth(SubagentId(n)), n))
    for name in by_depth:
        actor = turn.actors[name]
        subagent_id = SubagentId(name) if name else None
        if actor.call is not None:
            found.append(OpenModelCall(subagent_id=subagent_id, call=actor.call))
        found.extend(
            OpenTool(
                subagent_id=subagent_id,
                call=run.call,
                started=run.started,
                undecided=run.undecided,
            )
            for run in actor.tools
        )
        if subagent_id is not None and actor.spawned_by is not None:
            found.append(OpenSubagent(subagent_id=subagent_id, call_id=actor.spawned_by))
    return tuple(found)


# --- what waits for a person --------------------------------------------------------------------


def waits(turn: Turn, run: ToolRun) -> bool:
    """Whether a call goes on only once a person decides: on it, or for the subagent it has spawned."""
    if run.undecided:
        return True
    subagent_id = turn.subagent_of(run.call.id)
    return subagent_id is not None and actor_waits(turn, subagent_id)


def actor_waits(turn: Turn, subagent_id: SubagentId | None) -> bool:
    """Whether the agent, or a subagent, can do nothing until a person decides."""
    actor = turn.actor(subagent_id)
    return bool(actor.tools) and all(waits(turn, run) for run in actor.tools)


def turn_waits(turn: Turn) -> bool:
    """Whether nobody can do anything in the turn until a person decides; no process is needed."""
    ends = turn.stop_by is not None or turn.budget is not None
    return not ends and actor_waits(turn, None)


# --- what comes next ----------------------------------------------------------------------------


class Deliver(Struct, frozen=True, kw_only=True):
    """Messages are due to be shown to the model."""


class MakePlan(Struct, frozen=True, kw_only=True):
    """A phase of planning is to be done."""

    phase: Literal[1, 2, 3]
    attempts: tuple[Attempt, ...]


class LeavePlan(Struct, frozen=True, kw_only=True):
    """A phase of planning cannot be had: that costs the plan, and not the turn.

    Attributes:
        call_id: the model call that failed for good; ``error`` says why.
    """

    phase: Literal[1, 2, 3]
    call_id: CallId
    error: str


class Compress(Struct, frozen=True, kw_only=True):
    """The context is too full for the next call."""

    trigger: Literal["pre_turn", "in_turn"]


class AskModel(Struct, frozen=True, kw_only=True):
    """Ask the model; ``last`` is the one call without tools after the limit of iterations."""

    iteration: int
    last: bool
    attempts: tuple[Attempt, ...]


class RunTools(Struct, frozen=True, kw_only=True):
    """Run tool calls side by side; more than one only where each is a subagent."""

    runs: tuple[ToolRun, ...]


class WaitForApproval(Struct, frozen=True, kw_only=True):
    """Nothing to do until a person has decided; that takes no process, and has no time limit."""


class Finish(Struct, frozen=True, kw_only=True):
    """Nothing is left to do for this actor."""

    ending: Ending


TurnStep = (
    Deliver | MakePlan | LeavePlan | Compress | AskModel | RunTools | WaitForApproval | Finish
)


class Limits(Struct, frozen=True, kw_only=True):
    """What a profile and the state of the buffers say about an actor's next step.

    Attributes:
        max_iterations: calls with tools it may make.
        planning: whether it plans before its first call.
        second_phase: whether a plan is reviewed where the analysis asks for it.
        due: whether a message waits that its next model call must see.
        full: whether its context is too full for another call, and can be compressed.
        room: whether there is room for another call, where need be after a compression.
    """

    max_iterations: int
    planning: bool = False
    second_phase: bool = False
    due: bool = False
    full: bool = False
    room: bool = True


def next_turn_step(turn: Turn, subagent_id: SubagentId | None, limits: Limits) -> TurnStep:
    """What the agent, or a subagent, does next in an open turn."""
    actor = turn.actor(subagent_id)
    if turn.stop_by is not None:
        return Finish(ending=Stopped(by=turn.stop_by))
    if turn.budget is not None:
        return Finish(ending=Failed(kind=BUDGET, error=budget_words(turn.budget)))
    # A profile that allows fewer may be in force by now: of those made before none was the last.
    if actor.iterations > limits.max_iterations and actor.without_tools:
        return Finish(ending=Completed(limit_reached=True))  # whatever the last call asks for
    if actor.tools:
        # What waits for a person does not hold up the other calls of its reply.
        ready = tuple(run for run in actor.tools if not waits(turn, run))
        return RunTools(runs=_side_by_side(ready)) if ready else WaitForApproval()
    plans = limits.planning and not actor.plan.done and not actor.iterations
    if actor.attempts and not actor.attempts[-1].will_retry:
        last = actor.attempts[-1]
        if plans and actor.failed_call is not None:
            phase = _next_phase(actor.plan, limits)
            return LeavePlan(phase=phase, call_id=actor.failed_call, error=last.error)
        if last.kind in ("overflow", "runaway") and actor.cut_off == "answer":
            # There is nothing to go on with: it stays cut off.
            return Finish(ending=Completed(limit_reached=False))
        kind = CONTEXT_OVERFLOW if last.kind == "overflow" else last.kind
        return Finish(ending=Failed(kind=kind, error=last.error))
    if actor.replied and not (limits.room and goes_on(actor)):
        return Finish(ending=Completed(limit_reached=False))
    if limits.due:
        return Deliver()
    if limits.full and _may_compress(actor):
        return Compress(trigger="in_turn" if actor.iterations else "pre_turn")
    if plans:
        return MakePlan(phase=_next_phase(actor.plan, limits), attempts=actor.attempts)
    return AskModel(
        iteration=actor.iterations + 1,
        last=actor.iterations >= limits.max_iterations,
        attempts=actor.attempts,
    )


def goes_on(actor: Actor) -> bool:
    """Whether an actor goes on by itself because its answer was cut off for length; once a turn."""
    return actor.cut_off in ("answer", "call") and "continue" not in actor.progress.given


def _may_compress(actor: Actor) -> bool:
    if actor.compressed_at is None:
        return True
    wait = COMPRESS_AGAIN if actor.compression_failed else 1
    return actor.iterations - actor.compressed_at >= wait


def why_not_spawn(turn: Turn, parent: SubagentId | None) -> str | None:
    """Why an actor may not have another subagent, in words for the model; None when it may."""
    if turn.depth(parent) >= MAX_DEPTH:
        return f"Subagents may be nested {MAX_DEPTH} deep: do this part yourself."
    if turn.spawned >= MAX_SPAWNED:
        return f"This turn has had its {MAX_SPAWNED} subagents: do this part yourself."
    return None


def _side_by_side(runs: tuple[ToolRun, ...]) -> tuple[ToolRun, ...]:
    """The first call; with it the ones right behind it, as long as all of them are subagents."""
    if runs[0].call.name != SPAWN_AGENT:
        return runs[:1]
    return tuple(takewhile(lambda run: run.call.name == SPAWN_AGENT, runs))[:MAX_SIDE_BY_SIDE]


def _next_phase(plan: PlanStage, limits: Limits) -> Literal[1, 2, 3]:
    if plan.analysis is None:
        return 1
    return 2 if plan.reflect and limits.second_phase and plan.review is None else 3
