"""Traces of a session's turns, and of the model calls beside them, made from its log."""

from collections.abc import Callable
from contextlib import aclosing

from navi.domain.reading.spans import Span
from navi.domain.session.fork import is_cut_by_fork
from navi.domain.vocabulary.events import (
    Envelope,
    ModelCallFailed,
    ModelReplied,
    ProfileSwitched,
    SessionCreated,
    TurnStarted,
)
from navi.domain.vocabulary.ids import CallId, SessionId, TurnId
from navi.ports.event_log import FACTS, Recorded, SessionHistory
from navi.projections.turn_spans import (
    CALL_ENDS,
    TURN_ENDS,
    answers_beside,
    calls_beside,
    ends_turn,
    profile_told,
    span_of_call,
    spans_of_turn,
)

FIRST_STRETCH = 256  # events that are looked through for a beginning; most turns have fewer


def completes_traces(row: Recorded) -> bool:
    """Whether an event is the last of a trace: a turn's end, or an answer beside the turns.

    A turn that a fork inside it has cut is traced in the origin, where it ends.
    """
    if row.type in TURN_ENDS:
        return not is_cut_by_fork(row.readable)
    return row.type in CALL_ENDS and row.turn_id is None


async def traces_of(log: SessionHistory, last: Recorded) -> tuple[Span, ...]:
    """The traces that an event completes; nothing where the log does not say how they began.

    With a turn come the calls beside the turns that were answered while it was open.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    end = _readable(last)
    if end is None:
        return ()
    if isinstance(end.event, ModelReplied | ModelCallFailed):
        return await _trace_of_call(log, end, end.event.call_id)
    events = await _since(log, end, lambda e: _begins_turn(e, end.turn_id))
    if not events:
        return ()
    profile_id = profile_told(events)
    if profile_id is None:
        profile_id = await _profile_at(log, end.session_id, seq=events[0].seq)
    spans = spans_of_turn(events, profile_id=profile_id)
    for answer in answers_beside(events):
        assert isinstance(answer.event, ModelReplied | ModelCallFailed)  # noqa: S101 - what it gives
        spans += await _trace_of_call(log, answer, answer.event.call_id)
    return spans


async def trace_session(
    log: SessionHistory, session_id: SessionId, *, turn_id: TurnId | None = None
) -> tuple[Span, ...]:
    """Every trace of a session in the order of their ends, or that of one turn.

    A turn that has not ended has none yet.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    ends: list[Recorded] = []
    async with aclosing(log.read(session_id, types=FACTS)) as batches:
        async for rows in batches:
            ends += [row for row in rows if completes_traces(row)]
    spans: list[Span] = []
    for row in ends:
        if turn_id is None:
            spans += await traces_of(log, row)
        elif row.turn_id == turn_id:
            made = await traces_of(log, row)
            spans += [span for span in made if span.trace_id == made[0].trace_id]
    return tuple(spans)


async def _trace_of_call(
    log: SessionHistory, answer: Envelope, call_id: CallId
) -> tuple[Span, ...]:
    events = await _since(log, answer, lambda e: calls_beside(e, call_id))
    if not events:
        return ()
    turn = await _since(log, events[0], ends_turn)
    return (span_of_call(events[0], answer, follows=turn[0] if turn else None),)


async def _since(
    log: SessionHistory, last: Envelope, begins: Callable[[Envelope], bool]
) -> tuple[Envelope, ...]:
    """The facts from the latest that ``begins`` to ``last``; nothing where there is none.

    Read from the end, in longer and longer stretches: a turn is short beside its session.
    """
    stretch = FIRST_STRETCH
    while True:
        after = max(0, last.seq - stretch)
        events: list[Envelope] = []
        batches = log.read(last.session_id, after=after, until=last.seq, types=FACTS)
        async with aclosing(batches):
            async for rows in batches:
                events += filter(None, map(_readable, rows))
        for place in reversed(range(len(events))):
            if begins(events[place]):
                return tuple(events[place:])
        if after == 0:
            return ()
        stretch *= 4


async def _profile_at(log: SessionHistory, session_id: SessionId, *, seq: int) -> str | None:
    profile_id: str | None = None
    async with aclosing(log.read(session_id, until=seq, types=FACTS)) as batches:
        async for rows in batches:
            for row in rows:
                match row.readable:
                    case SessionCreated(profile_id=profile_id):
                        pass
                    case ProfileSwitched(to_profile=profile_id):
                        pass
                    case _:
                        pass
    return profile_id


def _begins_turn(envelope: Envelope, turn_id: TurnId | None) -> bool:
    return isinstance(envelope.event, TurnStarted) and envelope.turn_id == turn_id


def _readable(row: Recorded) -> Envelope | None:
    return None if row.readable is None else row.envelope
