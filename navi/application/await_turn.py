"""Wait for the turn that delivers a message, on whichever node it runs."""

from contextlib import aclosing
from typing import Literal

from msgspec import Struct

from navi.domain.events import (
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelReplied,
    SessionDeleted,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
)
from navi.domain.ids import CallId, SessionId, TurnId
from navi.ports import EventLog


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How a turn ended; ``content`` is the agent's last words in it, ``seq`` of the turn's end."""

    turn_id: TurnId | None
    outcome: Literal["completed", "stopped", "failed"]
    content: str
    seq: int


async def await_turn(
    event_log: EventLog, session_id: SessionId, *, message_seq: int
) -> TurnOutcome:
    """The outcome of the turn that delivers the message received at ``message_seq``."""
    turn_id: TurnId | None = None
    calls: set[CallId] = set()
    content = ""
    async with aclosing(event_log.watch(session_id, after=message_seq)) as batches:
        async for batch in batches:
            for row in batch:
                event = row.envelope.event
                match event:
                    case MessageDelivered(message_seq=seq) if seq == message_seq:
                        turn_id = row.turn_id
                    case MessageWithdrawn(message_seq=seq) if seq == message_seq:
                        return _outcome(None, "stopped", "", row.seq)
                    case SessionDeleted():
                        return _outcome(turn_id, "stopped", content, row.seq)
                    case ModelCalled(purpose="turn") if row.subagent_id is None:
                        calls.add(event.call_id)
                    case ModelReplied() if event.call_id in calls:
                        content = event.content
                    case TurnCompleted() if turn_id is not None:
                        return _outcome(turn_id, "completed", content, row.seq)
                    case TurnStopped() if turn_id is not None:
                        return _outcome(turn_id, "stopped", content, row.seq)
                    case TurnFailed(error=error) if turn_id is not None:
                        return _outcome(turn_id, "failed", content or error, row.seq)
                    case TurnCompleted() | TurnStopped() | TurnFailed():
                        calls.clear()
                        content = ""
                    case _:
                        pass
    raise AssertionError("a watch of the log has no end")


def _outcome(
    turn_id: TurnId | None,
    outcome: Literal["completed", "stopped", "failed"],
    content: str,
    seq: int,
) -> TurnOutcome:
    return TurnOutcome(turn_id=turn_id, outcome=outcome, content=content, seq=seq)
