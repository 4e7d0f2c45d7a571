"""A turn at a glance, of the recorded session in which everything happens."""

from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from navi.cli.reading.show import chosen, lines_of
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import (
    TEXT_DELTA_TYPES,
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    ModelWaiting,
    TurnStarted,
)
from navi.domain.vocabulary.ids import CallId, NodeId
from navi.projections.turn_glance import Glance, glances_of
from tests.released.fold import imported

EVERYTHING = Path(__file__).parents[1] / "reruns" / "everything.jsonl"


@pytest.fixture
async def events() -> list[Envelope]:
    taken = await imported(EVERYTHING)
    [session_id] = taken.sessions
    return [
        row.envelope
        async for rows in taken.log.read(session_id)
        for row in rows
        if row.type not in TEXT_DELTA_TYPES
    ]


def shown(glance: Glance, *, turns: int, width: int | None = 90) -> list[str]:
    return [click.unstyle(line) for line in lines_of(glance, turns=turns, width=width)]


def test_what_was_said_keeps_its_indentation(events: list[Envelope]) -> None:
    turn = glances_of(events)[1]
    said = replace(turn, lines=(replace(turn.lines[0], text="def f():\n\treturn one\n\nend"),))

    assert shown(said, turns=1, width=34)[3:] == [
        "                      def f():",
        "                          return …",
        "",
        "                      end",
    ]


def test_a_turn_shows_what_was_said_and_each_call_and_tool_with_its_outcome(
    events: list[Envelope],
) -> None:
    turns = glances_of(events)

    assert shown(turns[1], turns=len(turns)) == [
        "turn 2 of 11  2026-11-22 11:04:01  completed",
        "1.2 s: 3 model calls, 4 tools, 3,463 + 48 tokens",
        "    12     +0.00 s  you",
        "                      !think Two files will do.",
        '                      !tool filesystem {"action": "write", "path": "a.txt", "content": "o…',
        '                      !tool filesystem {"action": "read", "path": "nowhere.txt"}',
        '                      !tool todo {"action": "set", "items": [{"text": "look"}, {"text": "…',
        "                      !tool no_such_tool {}",
        "                      !then",
        "                      !say Written:",
        "                      !results",
        "    13     +0.02 s  model demo  ok  0.11 s  1,026 + 4  calls filesystem, filesystem, todo…",
        "    18     +0.08 s  model demo  ok  0.12 s  1,093 + 5  memory",
        '    22     +0.17 s  tool filesystem  ok  0.00 s  {"action":"write","path":"a.txt","conten…',
        "    26     +0.21 s  tool filesystem  error  0.00 s  nowhere.txt: No such file or director…",
        '    28     +0.23 s  tool todo  ok  0.00 s  {"action":"set","items":[{"text":"look"},{"tex…',
        "    31     +0.25 s  tool no_such_tool  error  0.00 s  There is no tool 'no_such_tool' for…",
        "    33     +0.26 s  model demo  ok  0.92 s  1,344 + 39",
        "    51     +1.19 s  agent",
        "                      Written:",
        "                      filesystem: Made a.txt (3 bytes).",
        "                      filesystem: nowhere.txt: No such file or directory",
        "                      todo: [ ] 1. look",
        "                      [x] 2. tell",
        "                      no_such_tool: There is no tool 'no_such_tool' for you. There are: f…",
    ]


def test_subagents_stand_inside_and_what_went_wrong_is_said(events: list[Envelope]) -> None:
    turns = glances_of(events)

    with_subagents = "\n".join(shown(turns[2], turns=11, width=None))
    assert "    subagent assistant  ok  0.21 s  !think hm !say found" in with_subagents
    assert [turn.outcome for turn in turns].count("failed") == 1
    taken_over = "\n".join(shown(turns[9], turns=11))
    assert "model demo  interrupted" in taken_over
    assert "taken over, attempt 2 (node_died)" in taken_over


@pytest.mark.parametrize("width", [30, 60, 80])
def test_every_line_fits_the_terminal(events: list[Envelope], width: int) -> None:
    for turn in glances_of(events):
        for line in shown(turn, turns=11, width=width)[2:]:
            assert len(line) <= max(width, 70)


def test_a_turn_is_chosen_by_number_or_id_and_the_last_one_otherwise(
    events: list[Envelope],
) -> None:
    turns = glances_of(events)

    assert chosen(turns, None).number == 11
    assert chosen(turns, "2") is chosen(turns, turns[1].turn_id)
    with pytest.raises(NotFound, match="turns 1 to 11"):
        chosen(turns, "12")
    with pytest.raises(NotFound, match="no turn yet"):
        chosen((), None)


def test_it_says_where_it_waited_and_for_how_long(events: list[Envelope]) -> None:
    start = next(e for e in events if isinstance(e.event, TurnStarted))
    call_id = CallId("call_1")
    asked = ApprovalRequested(call_id=call_id, name="ssh", arguments={}, reason="why", preview="")
    allowed = ApprovalDecided(call_id=call_id, decision="allow", scope="once", by="local")

    def after(seconds: float, seq: int, event: AgentEvent) -> Envelope:
        return Envelope(
            session_id=start.session_id,
            seq=seq,
            id=start.id,
            at=start.at + timedelta(seconds=seconds),
            turn_id=start.turn_id,
            subagent_id=None,
            event=event,
        )

    begun = [after(0, 1, TurnStarted(node=NodeId("n"))), after(1, 2, ModelWaiting(place=2))]
    waiting = [*begun, after(5, 3, asked)]
    [open_turn] = glances_of(waiting)
    [decided] = glances_of([*waiting, after(9, 4, allowed)])

    assert (open_turn.outcome, decided.outcome) == ("waiting", "running")
    assert "    3     +5.00 s  waits for you: ssh  open  why" in shown(open_turn, turns=1)[3]
    assert "waits for you: ssh  allow by local  4.00 s  why" in shown(decided, turns=1)[3]
    assert isinstance(decided.started_at, datetime)
    assert decided.waited_seconds == 12.0  # for a slot from the first second on, too
