"""The pictures of the page say what the server says: spans of turns, what was used, what differs."""

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from navi.domain.reading.spans import Span
from navi.domain.session.session import Session, evolve
from navi.domain.vocabulary.event_codec import encode_data, format_at, type_of
from navi.domain.vocabulary.events import ApprovalDecided, ApprovalRequested
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.projections.turn_spans import spans_of_turn
from tests.projections.test_turn_spans import COMPLETED, STARTED, done, tool, turn
from tests.released.fold import imported
from tests.support.event_consumer import NODE
from tests.support.spans import LOGS, recorded_sessions, recorded_turns

PROGRAM = Path(__file__).parents[1] / "support" / "page_pictures.mjs"
SAMPLES = (
    "00000000-0001-7000-8000-000000000000"  # one event of each type, in no order that a session has
)
MICROSECONDS = 1_000_000
KINDS = {
    "plan": "planning",
    "chat": "call",
    "execute_tool": "tool",
    "wait_for_approval": "approval",
    "invoke_agent": "subagent",
}


def pictures(sessions: Sequence[Sequence[Any]] = (), pairs: Sequence[Any] = ()) -> Any:
    """What the page makes of sessions and pairs of conversations, in one process."""
    given = json.dumps({"sessions": sessions, "pairs": pairs}).encode()
    made = subprocess.run([NODE, PROGRAM], input=given, capture_output=True, check=True)
    return json.loads(made.stdout)


async def wires() -> dict[SessionId, list[Any]]:
    """The envelopes of the recorded sessions, deltas too, as the page gets them."""
    found: dict[SessionId, list[Any]] = {}
    for path in LOGS:
        taken = await imported(path)
        for session_id in set(taken.sessions) - {SAMPLES}:
            rows = [row async for batch in taken.log.read(session_id) for row in batch]
            found[session_id] = [json.loads(row.wire) for row in rows]
    return found


@cache
def spans_by_turn() -> dict[str, list[list[Any]]]:
    """What `navi trace` says of each turn, as the page says it."""
    return {
        str(turn[0].turn_id): [said(span) for span in spans_of_turn(turn, profile_id=None)[1:]]
        for turn in recorded_turns()
    }


def said(span: Span) -> list[Any]:
    """Kind, seq, start and end in microseconds."""
    kind = KINDS[span.name.split(" ")[0]]
    times = [round(at.timestamp() * MICROSECONDS) for at in (span.began, span.ended)]
    return [kind, span.attributes["navi.seq"], *times]


def test_pictures_of_every_recorded_session_say_what_the_server_says() -> None:
    recorded = asyncio.run(wires())

    made = pictures(list(recorded.values()))["sessions"]

    kinds: Counter[str] = Counter()
    for (session_id, events), picture in zip(recorded.items(), made, strict=True):
        for shown, of_facts in zip(picture["turns"], picture["ofFacts"], strict=True):
            if shown["status"] != "running":
                spans = [span[:4] for span in shown["spans"]]
                assert spans == spans_by_turn()[shown["turnId"]], events[0]
                kinds.update(span[0] for span in spans)
            assert shown["spans"] == of_facts["spans"]
            assert set(shown["short"]) | set(of_facts["short"]) <= {0}
        session = Session()
        for envelope, usage in zip(recorded_sessions()[session_id], picture["usages"], strict=True):
            session = evolve(session, envelope)
            counted = session.usage
            assert usage | {"failed": 0} == {
                "calls": counted.calls,
                "failed": 0,
                "promptTokens": counted.prompt_tokens,
                "completionTokens": counted.completion_tokens,
                "cachedTokens": counted.cached_tokens,
                "estimated": counted.estimated,
            }
        assert picture["faults"] == []
        assert all(len(text) <= 241 and "\n" not in text for text in picture["texts"])
        # Each fact has one tick; only those that would stand on one place are one.
        seqs = sorted(seq for kind in picture["kinds"].values() for seq in kind)
        assert seqs == [envelope.seq for envelope in recorded_sessions()[session_id]]
        assert picture["drawn"] == [len(kind) for kind in picture["kinds"].values()]
    assert set(kinds) >= {*KINDS.values()} - {"approval"}


def test_the_wait_for_a_person_is_a_span() -> None:
    call = CallId("call_1")
    asked = ApprovalRequested(call_id=call, name="ssh", arguments={}, reason="", preview="")
    decided = ApprovalDecided(call_id=call, decision="allow", scope="once", by="local")
    events = turn(STARTED, asked, decided, tool("call_1", "ssh"), done("call_1", "ssh"), COMPLETED)
    wired = [
        {
            "seq": one.seq,
            "at": format_at(one.at),
            "turn_id": one.turn_id,
            "type": type_of(one.event),
            "data": json.loads(encode_data(one.event)),
        }
        for one in events
    ]

    [picture] = pictures([wired])["sessions"]

    [made] = picture["turns"]
    assert [span[:4] for span in made["spans"]] == [
        said(span) for span in spans_of_turn(events, profile_id=None)[1:]
    ]
    assert [span[0] for span in made["spans"]] == ["approval", "tool"]


def test_fifteen_thousand_events_are_a_few_thousand_ticks() -> None:
    events = [
        {"seq": seq, "type": "tool_started", "at": "2026-11-20T10:00:00Z", "data": {"call_id": seq}}
        for seq in range(1, 15_001)
    ]
    [picture] = pictures([events])["sessions"]
    assert sum(picture["drawn"]) <= 2_001
    assert picture["widest"] == 15_000


def test_idle_time_is_folded_and_what_was_done_keeps_its_proportions() -> None:
    made = pictures()
    assert made["folded"] == [[0, 500, False], [500, 540, True], [540, 1040, False]]


def test_only_the_rows_within_sight_are_drawn() -> None:
    for table in pictures()["tables"]:
        assert table["covers"]
        assert table["last"] - table["first"] <= 20


def test_events_are_found_by_type_actor_and_text() -> None:
    def event(seq: int, kind: str, output: str, subagent_id: str | None = None) -> dict[str, Any]:
        data = {"call_id": str(seq), "output": output}
        at = "2026-11-20T10:00:00Z"
        return {"seq": seq, "type": kind, "at": at, "subagent_id": subagent_id, "data": data}

    given = [
        event(1, "tool_finished", "all is ok here"),
        event(2, "tool_finished", "broken"),
        event(3, "tool_started", "all is ok here"),
        event(4, "tool_finished", "all is ok here", "subagent_0123456789ab"),
    ]
    assert pictures([given])["searched"] == [1]


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_two_conversations_are_aligned_by_what_they_say() -> None:
    hello, bye = message("user", "Hello."), message("user", "Bye.")
    long = [message("user", str(number)) for number in range(3_000)]
    pairs: list[Any] = [
        ([], []),
        ([hello], [{**hello, "seq": 9, "at": "later"}]),
        ([hello, message("assistant", "Tea is hot."), bye], [hello, message("assistant", "Tea is cold."), bye]),
        ([hello, bye], [hello, message("tool", "42", name="sum"), bye]),
        ([hello, message("tool", "42", name="sum")], [hello]),
        (long, long[::-1]),
    ]  # fmt: skip

    nothing, same, changed, added, removed, bounded = pictures(pairs=pairs)["compared"]

    assert nothing["rows"] == []
    assert [row["kind"] for row in same["rows"]] == ["same"]
    assert [row["kind"] for row in changed["rows"]] == ["same", "changed", "same"]
    assert changed["words"][1] == [
        {"kind": "same", "text": "Tea is "},
        {"kind": "removed", "text": "hot"},
        {"kind": "added", "text": "cold"},
        {"kind": "same", "text": "."},
    ]
    assert [row["kind"] for row in added["rows"]] == ["same", "added", "same"]
    assert [row["kind"] for row in removed["rows"]] == ["same", "removed"]
    assert {row["kind"] for row in bounded["rows"]} == {"changed"}
