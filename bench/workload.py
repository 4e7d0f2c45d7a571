"""A turn as an agent produces it: 22 commits, 55 events, 20 KiB of payload.

A question, a call that asks for five tools, the tools one after another, and a call that answers in 37
pieces of text. Every node, peer or bare insert that is compared writes these very events.
"""

import os
from datetime import UTC, datetime

from bench.servers import Store, new_id
from navi.application.session.record import Record
from navi.domain.session.commands import (
    Completed,
    EndTurn,
    Outcome,
    ReceiveMessage,
    RecordOutcome,
    TurnStart,
)
from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import (
    AgentEvent,
    MessageDelivered,
    ModelCalled,
    ModelReplied,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
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
)
from navi.ports.event_log import Append, NewEvent

AT = datetime(2026, 11, 20, tzinfo=UTC)
STEPS, EVENTS = 22, 55
TOOLS = 5
DELTA_COMMITS = (7, 6, 6, 6, 6, 6)
USAGE = Usage(prompt_tokens=4000, completion_tokens=250)
NODE = NodeId(new_id())
QUESTION = "q" * 400
SHA = "0123456789abcdef" * 4

Steps = tuple[tuple[AgentEvent, ...], ...]


def outcomes() -> tuple[tuple[Outcome, ...], ...]:
    """What the steps between the start and the end of a turn bring about, with new ids."""
    asked, answered = CallId(new_id()), CallId(new_id())
    calls = tuple(
        ToolCall(
            id=CallId(f"call_{os.urandom(6).hex()}"),
            name="filesystem",
            arguments={"action": "read", "path": "p" * 100},
        )
        for _ in range(TOOLS)
    )
    steps: list[tuple[Outcome, ...]] = [
        (_called(asked, 1),),
        (_replied(asked, content="", calls=calls),),
    ]
    for call in calls:
        steps += (
            (ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments),),
            (
                ToolFinished(
                    call_id=call.id, name=call.name, outcome="ok", output="o" * 2000, duration_ms=12
                ),
            ),
        )
    steps.append((_called(answered, 2),))
    steps += (
        tuple(TextDelta(call_id=answered, text="t" * 60) for _ in range(count))
        for count in DELTA_COMMITS
    )
    steps.append((_replied(answered, content="a" * 1000, calls=()),))
    return tuple(steps)


def whole_turn(*, receipt_seq: int) -> Steps:
    """All events of a turn as ``run_turn`` writes them, a tuple a commit; the first is the receipt."""
    beginning = (
        UserMessageReceived(message_id=MessageId(new_id()), content=QUESTION),
        TurnStarted(node=NODE),
        MessageDelivered(message_seq=receipt_seq),
    )
    end = TurnCompleted(iterations=2, limit_reached=False, usage=USAGE)
    return (beginning, *outcomes(), (end,))


def payload_bytes() -> int:
    """Bytes of JSON in a turn."""
    return sum(len(encode_data(event)) for step in whole_turn(receipt_seq=1) for event in step)


async def run_turn(record: Record, node: NodeId) -> None:
    """Write a turn through a session's record, each step awaited: decided, committed, folded."""
    start = TurnStart(turn_id=TurnId(new_id()), node=node)
    await record.execute(
        ReceiveMessage(message_id=MessageId(new_id()), content=QUESTION, start=start)
    )
    runner = record.runner()
    assert runner is not None
    for events in outcomes():
        await record.execute(RecordOutcome(runner=runner, events=events), retry=True)
    ending = Completed(limit_reached=False)
    await record.execute(EndTurn(runner=runner, ending=ending, partial_replies={}), retry=True)


async def fill(store: Store, session_id: SessionId, *, turns: int) -> int:
    """Append turns to a session, ten in a commit; gives the seq of the last event."""
    expected = await store.log.head(session_id)
    for start in range(0, turns, 10):
        news: list[NewEvent] = []
        for _ in range(min(10, turns - start)):
            turn_id = TurnId(new_id())
            steps = whole_turn(receipt_seq=expected + len(news) + 1)
            news += (_new(event, turn_id) for step in steps for event in step)
        batch = Append(
            session_id=session_id, owner=LOCAL_OWNER, expected=expected, events=tuple(news)
        )
        await store.log.append(batch)
        expected += len(news)
    return expected


async def append_many(
    store: Store, session_id: SessionId, event: AgentEvent, *, count: int
) -> None:
    """Append an event so many times, five hundred in a commit."""
    expected = await store.log.head(session_id)
    for start in range(0, count, 500):
        news = tuple(_new(event, None) for _ in range(min(500, count - start)))
        await store.log.append(
            Append(session_id=session_id, owner=LOCAL_OWNER, expected=expected, events=news)
        )
        expected += len(news)


def _new(event: AgentEvent, turn_id: TurnId | None) -> NewEvent:
    return NewEvent(id=EventId(new_id()), at=AT, turn_id=turn_id, subagent_id=None, event=event)


def _called(call_id: CallId, iteration: int) -> ModelCalled:
    return ModelCalled(
        call_id=call_id,
        purpose="turn",
        model="llama3.2",
        backend="ollama@http://127.0.0.1:11434",
        iteration=iteration,
        request_sha256=SHA,
        context_seq=1,
        system_sha256=SHA,
        tools_sha256=SHA,
        options={"temperature": None, "num_ctx": 32768, "think": False},
        renderer="ollama/1",
    )


def _replied(call_id: CallId, *, content: str, calls: tuple[ToolCall, ...]) -> ModelReplied:
    return ModelReplied(
        call_id=call_id,
        content=content,
        thinking="",
        tool_calls=calls,
        finish_reason="stop",
        usage=USAGE,
        duration_ms=1200,
        first_chunk_ms=300,
    )
