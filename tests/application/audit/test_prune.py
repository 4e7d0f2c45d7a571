"""Pruned deltas are missed by nobody: buffers stay, and so does the chain."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.application.audit.prune_deltas import prune_deltas
from navi.application.audit.verify_log import verify_log
from navi.application.reading.read_session import replay_session
from navi.domain.vocabulary.events import (
    AgentEvent,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    SessionCreated,
    TextDelta,
    ThinkingDelta,
    TurnStarted,
    Usage,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    EventId,
    NodeId,
    SessionId,
    TurnId,
    uuid7,
)
from navi.ports.event_log import Append, NewEvent, Recorded
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo

SESSION = SessionId("01990000-0000-7000-8000-000000000001")
TURN = TurnId("01990000-0000-7000-8000-0000000000f1")
NODE = NodeId("01990000-0000-7000-8000-00000000000a")
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)

Call = tuple[list[tuple[bool, str]], str]  # its deltas, as (thinking, text), and how it ended
calls = st.lists(
    st.tuples(
        st.lists(st.tuples(st.booleans(), st.text(max_size=5)), max_size=5),
        st.sampled_from(["replied", "failed", "open"]),
    ),
    max_size=6,
)


def events_of(number: int, call: Call) -> list[AgentEvent]:
    call_id = CallId(f"c{number}")
    deltas, end = call
    said = "".join(text for thinking, text in deltas if not thinking)
    ends: dict[str, list[AgentEvent]] = {
        "open": [],
        "replied": [
            ModelReplied(
                call_id=call_id,
                content=said,
                thinking="".join(text for thinking, text in deltas if thinking),
                tool_calls=(),
                finish_reason="stop",
                usage=Usage(prompt_tokens=number, completion_tokens=1),
                duration_ms=1,
                first_chunk_ms=1,
            )
        ],
        "failed": [
            ModelCallFailed(
                call_id=call_id, kind="http", error="", partial_text=said, will_retry=True
            )
        ],
    }
    return [
        called(call_id),
        *(
            ThinkingDelta(call_id=call_id, text=text)
            if thinking
            else TextDelta(call_id=call_id, text=text)
            for thinking, text in deltas
        ),
        *ends[end],
    ]


def called(call_id: CallId) -> ModelCalled:
    return ModelCalled(
        call_id=call_id,
        purpose="turn",
        model="m",
        backend="b",
        iteration=1,
        request_sha256="",
        context_seq=0,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="r/1",
    )


async def log_of(said: list[Call]) -> InMemoryEventLog:
    """A session in which one event happens an hour."""
    beginning: list[AgentEvent] = [
        SessionCreated(profile_id="p", owner=LOCAL_OWNER),
        TurnStarted(node=NODE),
    ]
    events = beginning + [e for n, call in enumerate(said) for e in events_of(n, call)]
    log = InMemoryEventLog()
    for seq, event in enumerate(events):
        new = NewEvent(
            id=EventId(uuid7(milliseconds=seq, random=bytes(10))),
            at=START + seq * HOUR,
            turn_id=TURN if seq else None,
            subagent_id=None,
            event=event,
        )
        await log.append(Append(session_id=SESSION, owner=LOCAL_OWNER, expected=seq, events=(new,)))
    return log


async def rows_of(log: InMemoryEventLog) -> list[Recorded]:
    return [row async for rows in log.read(SESSION) for row in rows]


async def buffers(log: InMemoryEventLog) -> list[Any]:
    head = await log.head(SESSION)
    projections: list[Any] = [Messages(), Context(), Todo(), PlanningLog(), Sessions()]
    return [
        await replay_session(log, projection, SESSION, until=until)
        for projection in projections
        for until in (head // 2, head)
    ]


@given(said=calls, age=st.integers(0, 60))
async def test_pruning_changes_no_buffer_and_no_event_but_old_deltas_of_ended_calls(
    said: list[Call], age: int
) -> None:
    log = await log_of(said)
    rows, shown = await rows_of(log), await buffers(log)
    before = START + age * HOUR
    ended = {f"c{n}" for n, (_, end) in enumerate(said) if end != "open"}
    expected = {
        row.seq
        for row in rows
        if isinstance(event := row.envelope.event, TextDelta | ThinkingDelta)
        and event.call_id in ended
        and row.at < before
    }

    would = await prune_deltas(log, before=before, dry_run=True)
    done = await prune_deltas(log, before=before)

    assert would == done
    assert done.deltas == len(expected)
    assert await buffers(log) == shown
    left = await rows_of(log)
    assert {row.seq for row, old in zip(left, rows, strict=True) if row != old} == expected
    assert all(row.data.endswith(b',"pruned":true}') for row in left if row.seq in expected)
    assert (await verify_log(log)).ok
