"""Runs of AG-UI out of recorded logs: legal in every case, and nothing of what was said lost or doubled."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import Struct
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.reading.fold import Fold
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import (
    ApprovalRequested,
    Envelope,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
)
from navi.domain.vocabulary.ids import CallId, MessageId, SessionId
from navi.http.doors.agui.events import Event, encode
from navi.http.doors.agui.history import messages_of
from navi.http.doors.agui.run_input import message_id_of
from navi.http.doors.agui.translate import AskedCall, Translation
from navi.projections.messages import Messages
from tests.support.agui import CheckedRun

ROOT = Path(__file__).parents[3]
LOGS = ("released/0.1.0.jsonl", "reruns/everything.jsonl", "reruns/planned.jsonl")
DELTAS = (TextDelta, ThinkingDelta)


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """A turn of a recorded session: the seq of its message, and the whole session."""

    name: str
    turn_id: Any
    message_seq: int
    session: tuple[Envelope, ...]

    @property
    def own(self) -> list[Envelope]:
        return [e for e in self.session if e.turn_id == self.turn_id]

    @property
    def last(self) -> int:
        ends = (TurnCompleted, TurnStopped, TurnFailed)
        return next(e.seq for e in self.own if isinstance(e.event, ends))


def read(path: str) -> list[Envelope]:
    found: list[Envelope] = []
    for line in (ROOT / path).read_text().splitlines():
        row = json.loads(line)
        if "seq" not in row or "type" not in row:
            continue
        data = json.dumps(row["data"]).encode()
        found.append(
            Envelope(
                session_id=row["session_id"],
                seq=row["seq"],
                id=row["id"],
                at=datetime.fromisoformat(row["at"]),
                turn_id=row["turn_id"],
                subagent_id=row["subagent_id"],
                event=decode_data(row["type"], row["v"], data),
            )
        )
    return found


@cache
def recorded_turns() -> tuple[RecordedTurn, ...]:
    turns: list[RecordedTurn] = []
    for path in LOGS:
        sessions: dict[SessionId, list[Envelope]] = {}
        for envelope in read(path):
            sessions.setdefault(envelope.session_id, []).append(envelope)
        for session in sessions.values():
            for envelope in session:
                if not isinstance(envelope.event, TurnStarted):
                    continue
                own = [e for e in session if e.turn_id == envelope.turn_id]
                seq = next(
                    e.event.message_seq for e in own if isinstance(e.event, MessageDelivered)
                )
                name = f"{path.partition('/')[2]}-{session[0].session_id[-4:]}-{envelope.seq}"
                turns.append(
                    RecordedTurn(
                        name=name,
                        turn_id=envelope.turn_id,
                        message_seq=seq,
                        session=tuple(session),
                    )
                )
    return tuple(turns)


NAMES = tuple(turn.name for turn in recorded_turns())


def named(name: str) -> RecordedTurn:
    return recorded_turns()[NAMES.index(name)]


def decoded(events: Iterable[Event]) -> list[dict[str, Any]]:
    return [json.loads(encode(event)) for event in events]


def translated(turn: RecordedTurn, envelopes: Sequence[Envelope], **options: Any) -> CheckedRun:
    """The run of a turn out of what stands behind its message."""
    run = Translation(thread_id="t", run_id="r", **(options or {"message_seq": turn.message_seq}))
    shown: list[Event] = [run.start()]
    for envelope in envelopes:
        if envelope.seq > turn.message_seq:
            shown += run.see(envelope)
    if not run.ended:
        shown += run.fail("cut off", "cut_off")
    return CheckedRun(decoded(shown))


def said(turn: RecordedTurn) -> dict[str, str]:
    """The words of the turn's agents, by call: of what was cut off what had come of it."""
    calls = {
        e.event.call_id
        for e in turn.own
        if isinstance(e.event, ModelCalled) and e.event.purpose == "turn"
    }
    words: dict[str, str] = {}
    for envelope in turn.own:
        match envelope.event:
            case ModelReplied(call_id=call_id, content=text) if call_id in calls and text:
                words[call_id] = text
            case ModelCallFailed(call_id=call_id, partial_text=text) if call_id in calls and text:
                words[call_id] = text
            case _:
                pass
    return words


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_turn_is_a_legal_run_with_all_that_was_said(name: str) -> None:
    turn = named(name)
    run = translated(turn, turn.session)

    agents = {name: text for name, text in run.texts.items() if run.roles[name] == "assistant"}
    assert agents == said(turn)
    assert run.results == {
        e.event.call_id: e.event.output for e in turn.own if isinstance(e.event, ToolFinished)
    }
    end = next(e.event for e in turn.own if e.seq == turn.last)
    match end:
        case TurnCompleted():
            assert run.end["outcome"] == {"type": "success"}
        case TurnStopped():
            assert run.end["outcome"] == {"type": "cancelled"}
        case TurnFailed(kind=kind, error=error):
            assert (run.end["code"], run.end["message"]) == (kind, error)
        case _:
            raise AssertionError(end)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_and_the_snapshot_of_later_have_the_same_messages(name: str) -> None:
    turn = named(name)
    fold = Fold(Messages())
    for envelope in turn.session:
        fold.apply(envelope)
    rows: list[Message] = [row for _, row in fold.rows.visible(after=None, limit=None)]

    run = translated(turn, turn.session)

    later = messages_of([row for row in rows if row.turn_id == turn.turn_id])
    agents = {m["id"]: m for m in later if m["role"] == "assistant"}
    assert {name: m.get("content", "") for name, m in agents.items() if m.get("content")} == {
        name: text for name, text in run.texts.items() if run.roles[name] == "assistant"
    }
    assert {m["toolCallId"]: m["content"] for m in later if m["role"] == "tool"} == run.results
    assert {m["id"]: m["content"] for m in later if m["role"] == "reasoning"}.items() <= (
        run.thoughts.items()
    )
    calls = {
        c["id"]: c["function"]["arguments"] for m in agents.values() for c in m.get("toolCalls", ())
    }
    assert calls == run.arguments


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_run_is_legal_wherever_it_begins_and_is_cut_off(data: st.DataObject) -> None:
    turn = named(data.draw(st.sampled_from(NAMES)))
    shown_to = data.draw(st.integers(turn.message_seq, turn.last - 1))
    end = data.draw(st.integers(turn.message_seq, turn.last))

    whole = translated(turn, [e for e in turn.session if e.seq <= end])
    rest = translated(turn, turn.session, turn_id=turn.turn_id, shown_to=shown_to)

    # What was shown before and what is shown then join to all that was said.
    before = translated(turn, [e for e in turn.session if e.seq <= shown_to])
    for name, text in rest.texts.items():
        assert before.texts.get(name, "") + text == translated(turn, turn.session).texts[name]
    assert whole.end["type"] in ("RUN_ERROR", "RUN_FINISHED")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_deltas_that_were_pruned_are_not_missed(data: st.DataObject) -> None:
    turn = named(data.draw(st.sampled_from(NAMES)))
    calls = sorted({e.event.call_id for e in turn.own if isinstance(e.event, DELTAS)})
    pruned = data.draw(st.sets(st.sampled_from(calls))) if calls else set[CallId]()
    later = data.draw(st.integers(turn.message_seq, turn.last))  # pruned while it was read

    def as_read(envelope: Envelope) -> Envelope:
        event = envelope.event
        if isinstance(event, DELTAS) and event.call_id in pruned and envelope.seq > later:
            return replace(envelope, event=replace(event, text="", pruned=True))
        return envelope

    run = translated(turn, [as_read(envelope) for envelope in turn.session])

    assert {n: t for n, t in run.texts.items() if run.roles[n] == "assistant"} == said(turn)


def test_a_turn_that_waits_is_an_interrupt_and_the_next_run_goes_on_behind_it() -> None:
    turn = next(
        turn
        for turn in recorded_turns()
        if any(isinstance(e.event, SubagentStarted) for e in turn.own)
        and any(e.subagent_id and isinstance(e.event, ToolFinished) for e in turn.own)
    )
    finished = next(
        e for e in turn.own if e.subagent_id is not None and isinstance(e.event, ToolFinished)
    )
    assert isinstance(finished.event, ToolFinished)
    call_id, cut = finished.event.call_id, finished.seq - 2  # before `tool_started`
    asked = ApprovalRequested(
        call_id=call_id, name="ssh", arguments={"host": "a"}, reason="why", preview="what"
    )
    run = Translation(thread_id="t", run_id="r", message_seq=turn.message_seq)
    shown: list[Event] = [run.start()]
    for envelope in turn.session:
        if turn.message_seq < envelope.seq <= cut:
            shown += run.see(envelope)

    shown += run.interrupt([AskedCall(event=asked, subagent_id=finished.subagent_id)])
    first = CheckedRun(decoded(shown))
    second = translated(turn, turn.session, turn_id=turn.turn_id, shown_to=cut)

    [interrupt] = first.end["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"]) == (call_id, call_id)
    assert (interrupt["subagentRunId"], interrupt["message"]) == (
        finished.subagent_id,
        "why\n\nwhat",
    )
    suspended = [e for e in first.all("SUBAGENT_FINISHED") if e["outcome"]["type"] == "suspended"]
    assert finished.subagent_id in [event["subagentRunId"] for event in suspended]
    assert call_id in first.arguments
    assert call_id not in second.arguments
    assert call_id in second.results
    again = [event["subagentRunId"] for event in second.all("SUBAGENT_STARTED")]
    assert finished.subagent_id in again


@pytest.mark.parametrize(
    ("text", "known"), [("m1", True), ("", False), ("a b", False), ("x" * 129, False)]
)
def test_an_id_of_a_message_that_cannot_be_one_here_gets_one_that_stays(
    text: str, known: bool
) -> None:
    found = message_id_of(text)

    assert found == message_id_of(text)
    assert (found == MessageId(text)) == known
