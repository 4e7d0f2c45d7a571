"""A turn at a glance: what was said, calls with time and tokens, tools with outcome, where it waited."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    ContextCompressed,
    Envelope,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    PlanReady,
    ProfileSwitched,
    StopRequested,
    SubagentFinished,
    SubagentStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, SubagentId, TurnId

Kind = Literal["user", "call", "tool", "wait", "subagent", "plan", "note", "answer"]


class GlanceLine(Struct, kw_only=True):
    """Something of a turn.

    Attributes:
        seq: of the event that began it.
        name: of a model, a tool, a profile; what is waited for.
        state: how it ended; ``open`` where it has not.
        seconds: from its beginning to its end, as far as it is known.
        prompt_tokens, completion_tokens: as the server counted, else as estimated.
        text: what was said, asked for, or came of it.
    """

    seq: int
    at: datetime
    kind: Kind
    name: str = ""
    state: str = ""
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    text: str = ""
    subagent_id: SubagentId | None = None


class Glance(Struct, kw_only=True):
    """A turn, from its start to its end or as far as it is.

    Attributes:
        number: 1 is the first turn of the session.
        outcome: ``running`` while it is open, ``waiting`` while it waits for a person.
        seconds: from its start to its end, or to the last event there is.
        waited_seconds: of these, for people and for model servers.
    """

    turn_id: TurnId
    number: int
    outcome: str
    started_at: datetime
    seconds: float
    waited_seconds: float
    calls: int
    tools: int
    prompt_tokens: int
    completion_tokens: int
    lines: tuple[GlanceLine, ...]


def glances_of(events: Iterable[Envelope]) -> tuple[Glance, ...]:
    """The turns of a session, in order.

    Args:
        events: all of the session up to some moment, in order; text in the making may be left out, and so may
            ``model_waiting``: then nothing is known of waits for model servers.
    """
    said: dict[int, str] = {}
    turns: dict[TurnId, _Turn] = {}
    for envelope in events:
        event, turn_id = envelope.event, envelope.turn_id
        if isinstance(event, UserMessageReceived):
            said[envelope.seq] = event.content
        if isinstance(event, TurnStarted) and turn_id is not None:
            turns[turn_id] = _Turn(turn_id, envelope, number=len(turns) + 1)
        if turn_id is not None and turn_id in turns:
            turns[turn_id].see(envelope, said)
    return tuple(turn.glance() for turn in turns.values())


class _Turn:
    def __init__(self, turn_id: TurnId, start: Envelope, *, number: int) -> None:
        self._turn_id = turn_id
        self._number = number
        self._start = self._last = start.at
        self._outcome = "running"
        self._lines: list[GlanceLine] = []
        self._open: dict[str, GlanceLine] = {}  # by the id of a call, with what it is in front
        self._purposes: dict[CallId, str] = {}
        self._calls: dict[CallId, ToolCall] = {}

    def glance(self) -> Glance:
        """The turn as far as it was seen."""
        calls = [line for line in self._lines if line.kind == "call"]
        waits = any(key.startswith("wait for you") for key in self._open)
        return Glance(
            turn_id=self._turn_id,
            number=self._number,
            outcome="waiting" if waits and self._outcome == "running" else self._outcome,
            started_at=self._start,
            seconds=_between(self._start, self._last),
            waited_seconds=sum(self._lasted(one) for one in self._lines if one.kind == "wait"),
            calls=len(calls),
            tools=sum(line.kind == "tool" for line in self._lines),
            prompt_tokens=sum(line.prompt_tokens or 0 for line in calls),
            completion_tokens=sum(line.completion_tokens or 0 for line in calls),
            lines=tuple(self._lines),
        )

    def see(self, envelope: Envelope, said: dict[int, str]) -> None:
        """Take the next event of the turn."""
        self._last = envelope.at
        match envelope.event:
            case MessageDelivered(message_seq=seq):
                self._begin(envelope, "user", text=said.get(seq, ""))
            case ModelWaiting(reason=reason):
                waits_for = {"slot": "a slot", "loading": "the model to load"}.get(reason, "a turn")
                if "wait for model" not in self._open:
                    line = self._begin(envelope, "wait", name=waits_for, state="open")
                    self._open["wait for model"] = line
            case ModelCalled() as called:
                self._ended("wait for model", envelope, "over")
                self._purposes[called.call_id] = called.purpose
                text = "" if called.purpose == "turn" else called.purpose
                line = self._begin(envelope, "call", name=called.model, state="open", text=text)
                self._open[f"call {called.call_id}"] = line
            case ModelReplied() as reply:
                self._replied(envelope, reply)
            case ModelCallFailed() as failed:
                line = self._ended(f"call {failed.call_id}", envelope, failed.kind)
                if line is not None:
                    again = " (tried again)" if failed.will_retry else ""
                    line.text = f"{failed.error}{again}"
                    _count(line, failed.usage or None, failed.estimate or None)
            case _:
                self._see_work(envelope, envelope.event)

    def _see_work(self, envelope: Envelope, event: AgentEvent) -> None:
        match event:
            case ApprovalRequested(call_id=call_id, name=name, reason=reason):
                line = self._begin(envelope, "wait", name=f"you: {name}", state="open", text=reason)
                self._open[f"wait for you {call_id}"] = line
            case ApprovalDecided(call_id=call_id, decision=decision, by=by):
                line = self._ended(f"wait for you {call_id}", envelope, f"{decision} by {by}")
            case ToolStarted(call_id=call_id, name=name):
                line = self._begin(envelope, "tool", name=name, state="open")
                line.text = self._arguments(call_id)
                self._open[f"tool {call_id}"] = line
            case ToolFinished() as done:
                self._tool(envelope, done)
            case SubagentStarted(call_id=call_id, profile_id=profile_id, task=task):
                line = self._begin(envelope, "subagent", name=profile_id, state="open", text=task)
                self._open[f"subagent {call_id}"] = line
            case SubagentFinished(call_id=call_id, completed_normally=well):
                self._ended(f"subagent {call_id}", envelope, "ok" if well else "cut short")
            case PlanReady(plan=plan, complexity=complexity):
                self._begin(envelope, "plan", name=complexity or "", text=plan)
            case ContextCompressed(tokens_before=before, tokens_after=after):
                self._begin(
                    envelope, "note", text=f"compressed from {before:,} to {after:,} tokens"
                )
            case TurnResumed(attempt=attempt, reason=reason):
                self._begin(envelope, "note", text=f"taken over, attempt {attempt} ({reason})")
            case ProfileSwitched(to_profile=profile_id):
                self._begin(envelope, "note", text=f"goes on as {profile_id}")
            case StopRequested(by=by):
                self._begin(envelope, "note", text=f"told to stop by {by}")
            case BudgetReached(scope=scope, limit=limit):
                self._begin(
                    envelope, "note", text=f"budget of the {scope} reached: {limit:,} tokens"
                )
            case TurnCompleted(limit_reached=limit_reached):
                self._outcome = "completed"
                if limit_reached:
                    self._begin(envelope, "note", text="all iterations were used up")
            case TurnStopped(by=by):
                self._outcome = f"stopped by {by}"
            case TurnFailed(kind=kind, error=error):
                self._outcome = "failed"
                self._begin(envelope, "note", text=f"{kind}: {error}")
            case _:
                pass

    def _replied(self, envelope: Envelope, reply: ModelReplied) -> None:
        line = self._ended(f"call {reply.call_id}", envelope, "ok")
        if line is None:
            return
        line.seconds = reply.duration_ms / 1000 or line.seconds
        _count(line, reply.usage, reply.estimate or None)
        if reply.finish_reason == "length":
            line.state = "cut off for length"
        for call in reply.tool_calls:
            self._calls[call.id] = call
        names = ", ".join(call.name for call in reply.tool_calls)
        line.text = " ".join(part for part in (line.text, names and f"calls {names}") if part)
        if reply.content and self._purposes.get(reply.call_id) == "turn":
            self._begin(envelope, "answer", text=reply.content)

    def _tool(self, envelope: Envelope, done: ToolFinished) -> None:
        line = self._ended(f"tool {done.call_id}", envelope, done.outcome)
        if line is None:  # skipped or denied: it was never begun
            line = self._begin(envelope, "tool", name=done.name, state=done.outcome)
            line.text = self._arguments(done.call_id)
        else:
            line.seconds = done.duration_ms / 1000 or line.seconds
        if done.outcome != "ok":  # why stands in front: a line may be cut
            line.text = " · ".join(part for part in (done.output, line.text) if part)

    def _arguments(self, call_id: CallId) -> str:
        call = self._calls.get(call_id)
        return "" if call is None else msgspec.json.encode(call.arguments).decode()

    def _begin(
        self, envelope: Envelope, kind: Kind, *, name: str = "", state: str = "", text: str = ""
    ) -> GlanceLine:
        line = GlanceLine(
            seq=envelope.seq,
            at=envelope.at,
            kind=kind,
            name=name,
            state=state,
            text=text,
            subagent_id=envelope.subagent_id,
        )
        self._lines.append(line)
        return line

    def _ended(self, key: str, envelope: Envelope, state: str) -> GlanceLine | None:
        line = self._open.pop(key, None)
        if line is not None:
            line.state = state
            line.seconds = _between(line.at, envelope.at)
        return line

    def _lasted(self, line: GlanceLine) -> float:
        return _between(line.at, self._last) if line.seconds is None else line.seconds


def _count(line: GlanceLine, usage: Usage | None, estimate: Usage | None) -> None:
    """Take the server's count, and for what it left out the estimate."""
    for counted in (estimate, usage):
        if counted is not None:
            if counted.prompt_tokens is not None:
                line.prompt_tokens = counted.prompt_tokens
            if counted.completion_tokens is not None:
                line.completion_tokens = counted.completion_tokens


def _between(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
