"""Query a recorded session for a rerun: its calls, batches, and outside events."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.event_codec import encode_data, type_of
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalRequested,
    ContextCompressed,
    Envelope,
    JsonObject,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    SessionCreated,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId, SessionId, SubagentId

# What a run of the same turn cannot give again: how long things took, which secrets stood in a text
# before it was logged, ids that a memory got, and how much had come of an answer and was not shown.
UNREPEATABLE = frozenset(
    {
        *("duration_ms", "first_chunk_ms", "masked", "memory_id", "tokens_before", "tokens_after"),
        "estimate",
    }
)

Reply = ModelReplied | ModelCallFailed


class Placed(Struct, frozen=True):
    """An event and its seq."""

    seq: int
    event: AgentEvent


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A model call of the recording.

    Attributes:
        subagent_id: whose it is in a turn.
        aside: whether it was made beside the turns.
        ended_at: seq of the reply or the failure; None where the recording ends before it.
    """

    seq: int
    called: ModelCalled
    subagent_id: SubagentId | None
    aside: bool
    reply: Reply | None = None
    ended_at: int | None = None


class Recording:
    """Queries on the events of a recorded session.

    Args:
        envelopes: seq 1, 2, 3, ... to its end.
        texts: prompts and tool texts by hash, as far as they are kept.
    """

    def __init__(self, envelopes: Sequence[Envelope], texts: Mapping[str, str]) -> None:
        self.envelopes = tuple(envelopes)
        self.texts = texts
        self.calls = _calls(self.envelopes)
        self._by_seq = {call.seq: call for call in self.calls}
        self._asides = {call.called.call_id for call in self.calls if call.aside}
        self._started: dict[CallId, int] = {}
        self._finished: dict[CallId, int] = {}
        self._spawned: dict[CallId, SubagentId] = {}
        self._requested: dict[CallId, ApprovalRequested] = {}
        for envelope in self.envelopes:
            match envelope.event:
                case ApprovalRequested(call_id=call_id) as requested:
                    self._requested[call_id] = requested
                case ToolStarted(call_id=call_id):
                    self._started[call_id] = envelope.seq
                case ToolFinished(call_id=call_id):
                    self._finished[call_id] = envelope.seq
                case SubagentStarted(call_id=call_id) if envelope.subagent_id is not None:
                    self._spawned[call_id] = envelope.subagent_id
                case _:
                    pass

    @property
    def last(self) -> int:
        """The seq of the last event."""
        return len(self.envelopes)

    def at(self, seq: int) -> Envelope:
        """The event of a seq, 1 to ``last``."""
        return self.envelopes[seq - 1]

    def after(self, seq: int) -> Iterable[Envelope]:
        """The events behind a seq."""
        return self.envelopes[seq:]

    def batch_start(self, seq: int) -> int:
        """The first event that was appended together with one: they have their moment in common."""
        at = self.at(seq).at
        while seq > 1 and self.at(seq - 1).at == at:
            seq -= 1
        return seq

    def batch(self, seq: int) -> tuple[Envelope, ...]:
        """The events that were appended together with one, from it on."""
        end = seq
        while end < self.last and self.at(end + 1).at == self.at(seq).at:
            end += 1
        return self.envelopes[seq - 1 : end]

    def session_at(self, seq: int) -> SessionId:
        """Under which id the session stands with an event: up to a fork it is its origin."""
        for envelope in self.after(seq):
            event = envelope.event
            if isinstance(event, SessionCreated) and event.forked_from is not None:
                return event.forked_from.session_id
        return self.at(self.last).session_id

    # --- model calls ---

    def call_at(self, seq: int) -> RecordedCall | None:
        """The model call that begins at a seq."""
        return self._by_seq.get(seq)

    def next_call(self, after: int, subagent_id: SubagentId | None) -> RecordedCall | None:
        """The next call of an actor of a turn."""
        for call in self.calls:
            if call.seq > after and not call.aside and call.subagent_id == subagent_id:
                return call
        return None

    def last_call(self, until: int, subagent_id: SubagentId | None) -> RecordedCall | None:
        """The latest call of purpose ``turn`` of an actor, up to a seq."""
        found = None
        for call in self.calls:
            own = not call.aside and call.subagent_id == subagent_id
            if call.seq <= until and own and call.called.purpose == "turn":
                found = call
        return found

    def next_aside(self, after: int, purposes: frozenset[str]) -> RecordedCall | None:
        """The next call beside the turns for one of some purposes.

        None once a turn was completed before it, unless its question was made earlier than that.
        """
        completed = None
        for envelope in self.after(after):
            if isinstance(envelope.event, TurnCompleted):
                completed = completed or envelope.seq
            call = self.call_at(envelope.seq)
            if call is not None and call.aside and call.called.purpose in purposes:
                is_earlier = completed is None or call.called.context_seq < completed
                return call if is_earlier else None
        return None

    def deltas(self, call: RecordedCall) -> list[Placed]:
        """What was shown of a call while it came, in order."""
        end = call.ended_at or self.last
        return [
            Placed(envelope.seq, envelope.event)
            for envelope in self.envelopes[call.seq : end]
            if isinstance(envelope.event, TextDelta | ThinkingDelta)
            and envelope.event.call_id == call.called.call_id
        ]

    def stands_with(self, seq: int, call_id: CallId) -> int:
        """From which event on an event of a call was appended: the end of thinking comes with it."""
        before = self.at(seq - 1).event if seq > 1 else None
        ends = isinstance(before, ThinkingEnded) and before.call_id == call_id
        return seq - 1 if ends else seq

    def is_beside(self, seq: int) -> bool:
        """Whether an event belongs to a call beside the turns: it, its answer, or what came with that."""
        first = self.at(self.batch_start(seq)).event
        if not isinstance(first, ModelCalled | ModelReplied | ModelCallFailed):
            return False
        return first.call_id in self._asides

    def is_by_hand(self, call: RecordedCall) -> bool:
        """Whether a call for a summary beside the turns was asked for by a person."""
        if isinstance(call.reply, ModelCallFailed) and call.reply.kind == "preempted":
            return False
        for envelope in self.after(call.seq):
            if isinstance(envelope.event, ContextCompressed) and envelope.turn_id is None:
                return envelope.event.trigger == "manual"
            if isinstance(envelope.event, TurnCompleted):
                break
        return not isinstance(self.at(call.seq - 1).event, TurnCompleted)

    # --- tool calls ---

    def requested(self, call_id: CallId) -> ApprovalRequested | None:
        """How a person was asked about a tool call; None where nobody was."""
        return self._requested.get(call_id)

    def started_at(self, call_id: CallId) -> int | None:
        """Where a tool call began."""
        return self._started.get(call_id)

    def finished(self, call_id: CallId) -> tuple[int, ToolFinished] | None:
        """How a tool call ended by itself, and where; None where something else ended it."""
        seq = self._finished.get(call_id)
        event = None if seq is None else self.at(seq).event
        if seq is None or not isinstance(event, ToolFinished):
            return None
        if event.outcome in ("unknown", "skipped") and self._ended_from_outside(seq):
            return None
        return seq, event

    def answer(self, call_id: CallId) -> ToolFinished | None:
        """How a tool call ended, whatever ended it."""
        seq = self._finished.get(call_id)
        event = None if seq is None else self.at(seq).event
        return event if isinstance(event, ToolFinished) else None

    def subagent_of(self, call_id: CallId) -> SubagentId | None:
        """The subagent that a tool call spawned."""
        return self._spawned.get(call_id)

    def effects(self, call_id: CallId) -> list[Placed]:
        """What the actor of a tool call did between its start and its end."""
        start = self._started.get(call_id)
        if start is None:
            return []
        own = self.at(start).subagent_id
        end = self._finished.get(call_id, self.last)
        return [
            Placed(envelope.seq, envelope.event)
            for envelope in self.envelopes[start : end - 1]
            if envelope.subagent_id == own
        ]

    def _ended_from_outside(self, seq: int) -> bool:
        start = self.batch_start(seq)
        ends = TurnResumed | TurnStopped | TurnFailed | TurnCompleted | SubagentFinished
        return any(isinstance(envelope.event, ends) for envelope in self.batch(start))


def _calls(envelopes: Sequence[Envelope]) -> tuple[RecordedCall, ...]:
    ends: dict[CallId, Envelope] = {}
    for envelope in envelopes:
        if isinstance(envelope.event, ModelReplied | ModelCallFailed):
            ends.setdefault(envelope.event.call_id, envelope)
    found: list[RecordedCall] = []
    for envelope in envelopes:
        if not isinstance(envelope.event, ModelCalled):
            continue
        end = ends.get(envelope.event.call_id)
        reply = None if end is None else end.event
        found.append(
            RecordedCall(
                seq=envelope.seq,
                called=envelope.event,
                subagent_id=envelope.subagent_id,
                aside=bool(envelope.event.node),
                reply=reply if isinstance(reply, ModelReplied | ModelCallFailed) else None,
                ended_at=None if end is None else end.seq,
            )
        )
    return tuple(found)


def begins_fork(envelope: Envelope) -> bool:
    """Whether the events here begin a fork."""
    event = envelope.event
    return isinstance(event, SessionCreated) and event.forked_from is not None


# --- sameness -----------------------------------------------------------------------------------


def differing(
    recorded: AgentEvent,
    event: AgentEvent,
    *,
    recorded_by: SubagentId | None,
    by: SubagentId | None,
) -> tuple[str, ...]:
    """In what an event is not the recorded one: ``type``, ``subagent_id``, or fields of the payload."""
    if type_of(recorded) != type_of(event):
        return ("type",)
    expected, got = _essence(recorded), _essence(event)
    if expected.get("pruned"):
        expected, got = {"call_id": expected["call_id"]}, {"call_id": got["call_id"]}
    names = [*expected, *(name for name in got if name not in expected)]
    fields = tuple(name for name in names if expected.get(name) != got.get(name))
    return fields if recorded_by == by else ("subagent_id", *fields)


def _essence(event: AgentEvent) -> JsonObject:
    data: JsonObject = msgspec.json.decode(encode_data(event))
    if isinstance(event, ModelCallFailed):
        data.pop("usage", None)  # of an answer that had come whole, and was not shown to its end
    return {name: value for name, value in data.items() if name not in UNREPEATABLE}
