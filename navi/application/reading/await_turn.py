"""Wait for the turn that delivers a message, on whichever node it runs."""

from contextlib import aclosing
from typing import Literal

from msgspec import Struct

from navi.domain.events import (
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
from navi.domain.ids import CallId, SessionId, TurnId
from navi.domain.turn import FOR_LENGTH
from navi.ports.event_log import EventLog


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How a turn ended; ``content`` is its final reply, ``seq`` of the turn's end."""

    turn_id: TurnId | None
    outcome: Literal["completed", "stopped", "failed"]
    content: str
    seq: int


class AwaitedTurn:
    """Follows the session's events to the end of the turn that delivers a message."""

    def __init__(self, message_seq: int) -> None:
        self.message_seq = message_seq
        self._turn_id: TurnId | None = None
        self._calls: set[CallId] = set()
        self._content = ""
        self._cut_off = False

    def see(self, envelope: Envelope) -> TurnOutcome | None:
        """Take the next event; gives the outcome once it is decided."""
        event = envelope.event
        match event:
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


def _outcome(
    turn_id: TurnId | None,
    outcome: Literal["completed", "stopped", "failed"],
    content: str,
    seq: int,
) -> TurnOutcome:
    return TurnOutcome(turn_id=turn_id, outcome=outcome, content=content, seq=seq)
