"""How two runs differ, event by event."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from navi.domain.comparison import (
    Differences,
    EventDifference,
    Pair,
    differences_by_key,
    differences_of_streams,
)
from navi.domain.events import (
    AgentEvent,
    Envelope,
    SessionRenamed,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from navi.domain.ids import CallId
from tests.domain.specification import envelope
from tests.domain.test_actors import called, replied


def stream(*events: AgentEvent) -> list[Envelope]:
    return [envelope(event, seq=seq) for seq, event in enumerate(events, start=1)]


def run(*calls: str, prefix: str, output: str = "") -> list[Envelope]:
    """A reply that asks for tools, by arguments, and their results; ids begin with ``prefix``."""
    asked = [
        ToolCall(id=CallId(f"{prefix}{n}"), name="t", arguments={"x": x})
        for n, x in enumerate(calls)
    ]
    events: list[AgentEvent] = [called(f"c{prefix}"), replied(f"c{prefix}", *asked)]
    for call in asked:
        events += [
            ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments),
            ToolFinished(
                call_id=call.id,
                name="t",
                outcome="ok",
                output=output or call.arguments["x"],
                duration_ms=len(prefix),
            ),
        ]
    return stream(*events)


def outline(differences: Sequence[EventDifference]) -> list[tuple[Any, ...]]:
    return [
        (one.kind, one.before and one.before.seq, one.after and one.after.seq, one.fields)
        for one in differences
    ]


def test_two_runs_that_differ_in_ids_and_times_alone_are_the_same() -> None:
    assert differences_of_streams(run("a", "b", prefix="1"), run("a", "b", prefix="22")) == ()


def test_another_result_is_a_change_that_names_the_field() -> None:
    one, other = run("a", prefix="1"), run("a", prefix="2", output="bad")

    assert outline(differences_of_streams(one, other)) == [("changed", 4, 4, ("output",))]


def test_a_tool_call_more_is_added_and_the_rest_is_still_recognised() -> None:
    one, other = run("a", "c", prefix="1"), run("a", "b", "c", prefix="2")

    assert outline(differences_of_streams(one, other)) == [
        ("changed", 2, 2, ("tool_calls",)),
        ("added", None, 5, ()),
        ("added", None, 6, ()),
    ]
    assert outline(differences_of_streams(other, one)) == [
        ("changed", 2, 2, ("tool_calls",)),
        ("removed", 5, None, ()),
        ("removed", 6, None, ()),
    ]


NAMED = st.lists(
    st.builds(SessionRenamed, name=st.sampled_from("abc"), by=st.just("user")), max_size=8
)


@given(NAMED, NAMED)
def test_every_event_is_the_same_or_told(one: list[Any], other: list[Any]) -> None:
    found = differences_of_streams(stream(*one), stream(*other))

    kinds = [difference.kind for difference in found]
    assert len(one) - kinds.count("removed") == len(other) - kinds.count("added")
    assert (found == ()) == (one == other)
    told = [difference.before.seq for difference in found if difference.before]
    told_other = [difference.after.seq for difference in found if difference.after]
    left = [event for seq, event in enumerate(one, 1) if seq not in told]
    assert left == [event for seq, event in enumerate(other, 1) if seq not in told_other]


def test_things_are_told_apart_by_their_keys() -> None:
    assert differences_by_key({1: "a", 2: "b", 3: "c"}, {1: "a", 3: "d", 4: "e"}) == Differences(
        added=("e",), removed=("b",), changed=(Pair(before="c", after="d"),)
    )
