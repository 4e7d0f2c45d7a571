"""A session of any length as an export, for a navi to import: nobody waits for its turns."""

from datetime import UTC, datetime, timedelta

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.application.audit.export_sessions import ExportSessions
from navi.domain.vocabulary.events import (
    AgentEvent,
    MessageDelivered,
    ModelCalled,
    ModelReplied,
    SessionCreated,
    TurnCompleted,
    TurnStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    EventId,
    MessageId,
    NodeId,
    SessionId,
    TurnId,
    uuid7,
)
from navi.ports.event_log import Append, NewEvent
from tests.support.manual_clock import ManualClock
from tests.support.signing import signer_of

BEGAN = datetime(2026, 11, 20, 10, tzinfo=UTC)
NOTHING_USED = Usage(prompt_tokens=1, completion_tokens=1)
FACTS_A_TURN = 6
BATCH = 1000


async def exported_session(number: int, turns: int) -> tuple[SessionId, str]:
    """A session of so many turns, with a question and an answer each, and its export.

    Turn N asks "Question N" at seq ``6 * N - 4`` and is answered with "Answer N"; ``number`` tells
    sessions apart.
    """
    session_id = SessionId(_id(number, 0))
    log = InMemoryEventLog()
    events = [
        NewEvent(
            id=EventId(_id(number, 1)),
            at=BEGAN,
            turn_id=None,
            subagent_id=None,
            event=SessionCreated(profile_id="default", owner=LOCAL_OWNER),
        )
    ]
    for turn in range(1, turns + 1):
        turn_id = TurnId(_id(number, 10 * turn))
        at = BEGAN + timedelta(seconds=turn)
        for place, event in enumerate(_turn(turn)):
            events.append(
                NewEvent(
                    id=EventId(_id(number, 10 * turn + place + 1)),
                    at=at,
                    turn_id=turn_id if place else None,
                    subagent_id=None,
                    event=event,
                )
            )
    for start in range(0, len(events), BATCH):
        await log.append(
            Append(
                session_id=session_id,
                owner=LOCAL_OWNER,
                expected=start,
                events=tuple(events[start : start + BATCH]),
            )
        )
    exporting = ExportSessions(
        log, InMemoryTextStore(), signer_of(), ManualClock(), log_id=_id(number, 0), version="0.1.0"
    )
    return session_id, b"".join([piece async for piece in exporting.export(None)]).decode()


def _id(number: int, event: int) -> str:
    return uuid7(milliseconds=1_700_000_000_000 + number, random=event.to_bytes(10))


def _turn(turn: int) -> list[AgentEvent]:
    call_id = CallId(f"call-{turn}")
    return [
        UserMessageReceived(message_id=MessageId(f"message-{turn}"), content=f"Question {turn}"),
        TurnStarted(node=NodeId("node")),
        MessageDelivered(message_seq=FACTS_A_TURN * (turn - 1) + 2),
        ModelCalled(
            call_id=call_id,
            purpose="turn",
            model="demo",
            backend="demo",
            iteration=1,
            request_sha256="0" * 64,
            context_seq=1,
            system_sha256=None,
            tools_sha256=None,
            options={},
            renderer="1",
        ),
        ModelReplied(
            call_id=call_id,
            content=f"Answer {turn}, in **some** words:\n\n- one\n- two\n\n`and` the rest of it.",
            thinking="",
            tool_calls=(),
            finish_reason="stop",
            usage=NOTHING_USED,
            duration_ms=10,
            first_chunk_ms=5,
        ),
        TurnCompleted(iterations=1, limit_reached=False, usage=NOTHING_USED),
    ]
