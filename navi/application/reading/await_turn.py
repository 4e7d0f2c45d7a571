"""Wait for the turn that delivers a message, on whichever node it runs."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Literal

from msgspec import Struct

from navi.domain.session.session import Session
from navi.domain.session.turn import FOR_LENGTH, turn_waits
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    SessionDeleted,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId, SessionId, TurnId
from navi.ports.event_log import EventLog


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How a turn ended; ``content`` is its final reply, ``seq`` of the turn's end."""

    turn_id: TurnId | None
    outcome: Literal["completed", "stopped", "failed"]
    content: str
    seq: int


class TurnWaits(Struct, frozen=True, kw_only=True):
    """The turn can do nothing until a person decides; ``session`` is as it then stands."""

    session: Session


class AwaitedTurn:
    """Follows the session's events to the end of the turn that delivers a message.

    Attributes:
        undecided: the tool calls that wait for a person, of this turn or one before it.
    """

    def __init__(self, message_seq: int) -> None:
        self.message_seq = message_seq
        self.undecided: set[CallId] = set()
        self._turn_id: TurnId | None = None
        self._calls: set[CallId] = set()
        self._content = ""
        self._cut_off = False

    def waits_in(self, session: Session) -> bool:
        """Whether its turn is open in the session, and waits for a person."""
        turn = session.turn
        return turn is not None and turn.id == self._turn_id and turn_waits(turn)

    def see(self, envelope: Envelope) -> TurnOutcome | None:
        """Take the next event; gives the outcome once it is decided."""
        event = envelope.event
        match event:
            case ApprovalRequested(call_id=call_id):
                self.undecided.add(call_id)
            case ApprovalDecided(call_id=call_id):
                self.undecided.discard(call_id)
            case MessageDelivered(message_seq=seq) if seq == self.message_seq:
                self._turn_id = envelope.turn_id
            case MessageWithdrawn(message_seq=seq) if seq == self.message_seq:
                return _outcome(None, "stopped", "", envelope.seq)
            case SessionDeleted():
                return _outcome(self._turn_id, "stopped", self._content, envelope.seq)
            case ModelCalled(purpose="turn") if envelope.subagent_id is None:
                self._calls.add(event.call_id)
            case ModelReplied() if event.call_id in self._calls:
                # What was cut off for length goes on in the next reply.
                self._content = self._content * self._cut_off + event.content
                self._cut_off = event.finish_reason == FOR_LENGTH and not event.tool_calls
            case ModelCallFailed(kept=int()) if event.call_id in self._calls:
                self._content = self._content * self._cut_off + event.answer
                self._cut_off = False
            case TurnCompleted() if self._turn_id is not None:
                return _outcome(self._turn_id, "completed", self._content, envelope.seq)
            case TurnStopped() if self._turn_id is not None:
                return _outcome(self._turn_id, "stopped", self._content, envelope.seq)
            case TurnFailed(error=error) if self._turn_id is not None:
                return _outcome(self._turn_id, "failed", self._content or error, envelope.seq)
            case TurnCompleted() | TurnStopped() | TurnFailed():
                self._calls.clear()
                self._content, self._cut_off = "", False
            case _:
                pass
        return None


async def await_turn(
    event_log: EventLog, session_id: SessionId, *, message_seq: int
) -> TurnOutcome:
    """The outcome of the turn that delivers the message received at ``message_seq``."""
    turn = AwaitedTurn(message_seq)
    async with aclosing(event_log.watch(session_id, after=message_seq)) as batches:
        async for batch in batches:
            for row in batch:
                outcome = turn.see(row.envelope)
                if outcome is not None:
                    return outcome
    raise AssertionError("a watch of the log has no end")


async def await_turn_or_person(
    event_log: EventLog,
    find: Callable[[SessionId], Awaitable[Session]],
    session_id: SessionId,
    *,
    message_seq: int,
    known: frozenset[CallId],
) -> TurnOutcome | TurnWaits:
    """The outcome of the turn, or that it waits for a person.

    Args:
        find: the session's present state.
        known: the calls of which whoever asks knows that they wait: it waits for what comes of them.
    """
    turn = AwaitedTurn(message_seq)
    async with aclosing(event_log.watch(session_id, after=message_seq)) as batches:
        async for batch in batches:
            for row in batch:
                outcome = turn.see(row.envelope)
                if outcome is not None:
                    return outcome
            if turn.undecided - known and batch[-1].type not in DELTA_TYPES:
                with suppress(NotFound):  # the events say so, too
                    session = await find(session_id)
                    if turn.waits_in(session):
                        return TurnWaits(session=session)
    raise AssertionError("a watch of the log has no end")


def _outcome(
    turn_id: TurnId | None,
    outcome: Literal["completed", "stopped", "failed"],
    content: str,
    seq: int,
) -> TurnOutcome:
    return TurnOutcome(turn_id=turn_id, outcome=outcome, content=content, seq=seq)
