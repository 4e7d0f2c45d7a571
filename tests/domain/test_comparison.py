"""How two runs differ, event by event."""

from collections.abc import Sequence
from typing import Any, Literal

import hypothesis.strategies as st
from hypothesis import given
from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.reading.comparison import (
    Differences,
    EventDifference,
    Pair,
    differences_by_key,
    differences_of_messages,
    differences_of_streams,
    versions,
)
from navi.domain.vocabulary.events import (
    AgentEvent,
    Envelope,
    SessionRenamed,
    ToolCall,
    ToolFinished,
    ToolStarted,
)
from navi.domain.vocabulary.ids import CallId
from tests.domain.specification import AT, envelope
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


def test_a_call_is_not_taken_for_a_version_of_one_for_another_purpose() -> None:
    one = stream(called("1", "memory"), replied("1", content="NONE"))
    other = stream(called("2"), replied("2", content="hello"))

    assert outline(differences_of_streams(one, other)) == [
        ("removed", 1, None, ()),
        ("added", None, 1, ()),
        ("removed", 2, None, ()),
        ("added", None, 2, ()),
    ]


def said(
    seq: int, content: str, *calls: ToolCall, role: Literal["user", "assistant"] = "user"
) -> Message:
    return Message(
        seq=seq, role=role, content=content, at=AT, turn_id=None, tool_calls=calls or UNSET
    )


def test_messages_that_moved_are_the_same() -> None:
    one, other = (
        ToolCall(id=CallId("1"), name="t", arguments={}),
        ToolCall(id=CallId("2"), name="t", arguments={}),
    )
    before = [said(1, "a"), said(2, "", one, role="assistant"), said(3, "b"), said(4, "c")]
    after = [said(1, "a"), said(7, "", other, role="assistant"), said(9, "d"), said(11, "c")]

    assert differences_of_messages(before, after) == Differences(
        added=(after[2],), removed=(before[2],), changed=()
    )


def test_a_message_that_both_have_is_changed() -> None:
    before, after = said(1, "a"), replace(said(1, "a"), is_withdrawn=True)

    assert differences_of_messages([before], [after]) == Differences(
        added=(), removed=(), changed=(Pair(before=before, after=after),)
    )


def test_what_was_removed_stands_beside_what_came_in_its_place() -> None:
    asked, reply, other = (
        said(1, "a"),
        said(2, "b", role="assistant"),
        said(5, "c", role="assistant"),
    )

    assert versions([asked, reply], [other]) == [(asked, None), (reply, other)]


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
