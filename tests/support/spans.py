"""What holds for the spans of every trace, whatever the turn was like."""

import asyncio
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from navi.domain.reading.spans import Span
from navi.domain.vocabulary.events import Envelope, TurnStarted
from navi.domain.vocabulary.ids import SessionId, TurnId
from navi.ports.event_log import FACTS
from navi.projections.turn_spans import ends_turn
from tests.released.fold import imported

TESTS = Path(__file__).parents[1]
LOGS = (*sorted(TESTS.glob("released/*.jsonl")), *sorted(TESTS.glob("reruns/*.jsonl")))
# What people and models wrote, or tools put out; ids, names and outcomes are no such texts.
TEXTS = frozenset(
    {
        "content",
        "thinking",
        "written",
        "output",
        "arguments",
        "plan",
        "summary",
        "task",
        "result",
        "error",
        "partial_text",
        "preview",
    }
)


def broken_rules(spans: Sequence[Span]) -> list[str]:
    """What is wrong with the spans of some traces; nothing, where all is well."""
    ids = {(span.trace_id, span.span_id): span for span in spans}
    broken: list[str] = []
    if len(ids) != len(spans):
        broken.append("two spans have one id")
    seen: set[tuple[str, str]] = set()
    for span in spans:
        if len(span.trace_id) != 32 or len(span.span_id) != 16:
            broken.append(f"{span.name}: ids are of another length")
        if span.ended < span.began:
            broken.append(f"{span.name}: ends before it begins")
        if span.parent_id is not None:
            parent = ids.get((span.trace_id, span.parent_id))
            if parent is None:
                broken.append(f"{span.name}: its parent is not there")
            elif (span.trace_id, span.parent_id) not in seen:
                broken.append(f"{span.name}: stands before its parent")
            elif not parent.began <= span.began <= span.ended <= parent.ended:
                broken.append(f"{span.name}: is not within {parent.name}")
        seen.add((span.trace_id, span.span_id))
        if span.failed != ("error.type" in span.attributes):
            broken.append(f"{span.name}: failed without saying how, or the other way round")
    roots = [span.trace_id for span in spans if span.parent_id is None]
    if sorted(roots) != sorted({span.trace_id for span in spans}):
        broken.append("a trace has not exactly one root")
    return broken


@cache
def recorded_turns() -> tuple[tuple[Envelope, ...], ...]:
    """The facts of every turn of the recorded logs, from its start to its end."""
    return tuple(turn for events in recorded_sessions().values() for turn in _turns_of(events))


@cache
def recorded_sessions() -> dict[SessionId, tuple[Envelope, ...]]:
    """The facts of every session of the recorded logs."""
    return asyncio.run(_read())


async def _read() -> dict[SessionId, tuple[Envelope, ...]]:
    found: dict[SessionId, tuple[Envelope, ...]] = {}
    for path in LOGS:
        taken = await imported(path)
        for session_id in taken.sessions:
            found[session_id] = tuple(
                [
                    row.envelope
                    async for rows in taken.log.read(session_id, types=FACTS)
                    for row in rows
                ]
            )
    return found


def _turns_of(events: Sequence[Envelope]) -> list[tuple[Envelope, ...]]:
    starts = [n for n, e in enumerate(events) if isinstance(e.event, TurnStarted)]
    found: list[tuple[Envelope, ...]] = []
    for start, after in pairwise((*starts, len(events))):
        turn_id: TurnId | None = events[start].turn_id
        turn = [e for e in events[start:after] if e.turn_id == turn_id]
        if ends_turn(turn[-1]):
            found.append(tuple(turn))
    return found
