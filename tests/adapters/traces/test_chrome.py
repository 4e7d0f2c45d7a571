"""Spans in the Trace Event Format: complete events that nest on each thread."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from navi.adapters.traces.chrome import chrome_trace
from navi.domain.reading.spans import Span
from navi.projections.turn_spans import spans_of_turn
from tests.support.spans import recorded_turns

AT = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


class Complete(
    Struct, frozen=True, kw_only=True, tag_field="ph", tag="X", forbid_unknown_fields=True
):
    """An event with a duration; times in microseconds."""

    name: str
    cat: str
    ts: int
    dur: int
    pid: int
    tid: int
    args: dict[str, object]


class Name(Struct, frozen=True, kw_only=True, tag_field="ph", tag="M", forbid_unknown_fields=True):
    """The name of a process or a thread."""

    name: Literal["process_name", "thread_name"]
    ts: int
    dur: int
    pid: int
    tid: int
    args: dict[str, str]


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    traceEvents: list[Complete | Name]  # noqa: N815  # the format's name
    displayTimeUnit: Literal["ms", "ns"]  # noqa: N815  # the format's name


def read(spans: tuple[Span, ...]) -> list[Complete]:
    trace = msgspec.json.decode(chrome_trace(spans, process="a session"), type=Trace)
    named = {event.tid for event in trace.traceEvents if isinstance(event, Name)}
    events = [event for event in trace.traceEvents if isinstance(event, Complete)]
    assert {event.tid for event in events} <= named
    return events


def overlaps(events: list[Complete]) -> list[tuple[str, str]]:
    """Pairs of one thread of which neither is within the other, nor behind it."""
    return [
        (a.name, b.name)
        for n, a in enumerate(events)
        for b in events[n + 1 :]
        if a.tid == b.tid
        and max(a.ts, b.ts) < min(a.ts + a.dur, b.ts + b.dur)
        and not (a.ts <= b.ts and b.ts + b.dur <= a.ts + a.dur)
        and not (b.ts <= a.ts and a.ts + a.dur <= b.ts + b.dur)
    ]


def span(number: int, parent: int | None, began: float, ended: float) -> Span:
    return Span(
        trace_id="0" * 31 + "1",
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=str(number),
        kind="internal",
        began=AT + timedelta(seconds=began),
        ended=AT + timedelta(seconds=ended),
        attributes={},
    )


def test_what_runs_side_by_side_has_threads_of_its_own() -> None:
    events = read(
        (
            span(1, None, 0, 10),
            span(2, 1, 1, 5),
            span(3, 1, 2, 6),
            span(4, 3, 3, 4),
            span(5, 1, 7, 8),
        )
    )

    assert {event.name: event.tid for event in events} == {"1": 1, "2": 1, "3": 2, "4": 2, "5": 1}


def test_recorded_turns_nest() -> None:
    for turn in recorded_turns():
        spans = spans_of_turn(turn, profile_id="assistant")

        events = read(spans)

        assert overlaps(events) == []
        assert sorted(event.name for event in events) == sorted(one.name for one in spans)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=25
    )
)
def test_any_tree_nests(shape: list[tuple[int, float, float]]) -> None:
    spans = [span(0, None, 0, 1000)]
    for number, (parent, start, share) in enumerate(shape, start=1):
        above = spans[parent % len(spans)]
        room = (above.ended - above.began).total_seconds()
        began = (above.began - AT).total_seconds() + start * room
        ended = began + share * ((above.ended - AT).total_seconds() - began)
        spans.append(span(number, int(above.span_id, 16), began, ended))

    assert overlaps(read(tuple(spans))) == []
