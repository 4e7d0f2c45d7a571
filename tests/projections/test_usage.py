"""The projection ``usage``: every call once, by its day and kind, whatever became of its words."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.log.erasure import without_words
from navi.domain.session.session import Session, evolve
from navi.domain.spending.call_tokens import tokens_of
from navi.domain.spending.usage import Tally
from navi.domain.vocabulary.event_codec import EventDecoder, encode_data, type_of, version_of
from navi.domain.vocabulary.events import (
    EVENT_TYPES,
    AgentEvent,
    Envelope,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    Origin,
    ProfileSwitched,
    Purpose,
    SessionCreated,
    SessionDeleted,
    TextDelta,
)
from navi.domain.vocabulary.events import (
    Usage as Counts,
)
from navi.domain.vocabulary.ids import CallId, EventId, Owner, SessionId
from navi.domain.vocabulary.upcasting import UPCASTERS
from navi.projections.usage import Usage, UsageState

SESSION = SessionId("01990000-0000-7000-8000-000000000001")
ANNA = Owner("anna")
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)
CREATED = SessionCreated(profile_id="assistant", owner=ANNA)
USAGE = Usage()
DECODER = EventDecoder(EVENT_TYPES, UPCASTERS)

COUNTS = st.integers(0, 10_000)
OPTIONAL = st.none() | COUNTS


def called(number: int, purpose: Purpose = "turn", **fields: Any) -> ModelCalled:
    return ModelCalled(
        call_id=CallId(f"c{number}"),
        purpose=purpose,
        model=fields.pop("model", "m"),
        backend="b",
        iteration=1,
        request_sha256="",
        context_seq=0,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="r/1",
        **fields,
    )


def replied(number: int, usage: Counts, **fields: Any) -> ModelReplied:
    return ModelReplied(
        call_id=CallId(f"c{number}"),
        content="words",
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=usage,
        duration_ms=1,
        first_chunk_ms=1,
        **fields,
    )


def failed(number: int, **fields: Any) -> ModelCallFailed:
    return ModelCallFailed(
        call_id=CallId(f"c{number}"),
        kind="stopped",
        error="words",
        partial_text="words",
        will_retry=False,
        **fields,
    )


@st.composite
def histories(draw: st.DrawFn) -> list[AgentEvent]:
    """Calls of all kinds, side by side, some still open, with other events between them."""
    events: list[AgentEvent] = []
    open_calls: list[int] = []
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            events.append(TextDelta(call_id=CallId("c0"), text="x"))
        profile = draw(st.sampled_from([UNSET, "assistant", "developer"]))
        events.append(
            called(
                number,
                draw(st.sampled_from(["turn", "naming", "compression"])),
                model=draw(st.sampled_from(["one", "other"])),
                profile_id=profile,
            )
        )
        open_calls.append(number)
        while open_calls and draw(st.booleans()):
            ended = open_calls.pop(draw(st.integers(0, len(open_calls) - 1)))
            events.append(draw(ends(ended)))
    return events


@st.composite
def ends(draw: st.DrawFn, number: int) -> ModelReplied | ModelCallFailed:
    cached = draw(OPTIONAL)
    usage = Counts(
        prompt_tokens=draw(OPTIONAL),
        completion_tokens=draw(OPTIONAL),
        cached_tokens=UNSET if cached is None else cached,
    )
    instead = Counts(prompt_tokens=draw(COUNTS), completion_tokens=draw(COUNTS))
    if draw(st.booleans()):
        return replied(number, usage, estimate=instead)
    return failed(number, usage=draw(st.sampled_from([UNSET, usage])), estimate=instead)


def envelopes(
    events: Sequence[AgentEvent], *, after: int = 0, at: datetime = MIDNIGHT
) -> list[Envelope]:
    """Events of one minute after the other."""
    return [
        Envelope(
            session_id=SESSION,
            seq=seq,
            id=EventId(""),
            at=at + timedelta(minutes=seq),
            turn_id=None,
            subagent_id=None,
            event=event,
        )
        for seq, event in enumerate(events, start=after + 1)
    ]


def fold(given_: Sequence[Envelope], state: UsageState | None = None) -> UsageState:
    state = USAGE.initial() if state is None else state
    for each in given_:
        state, changes = USAGE.fold(state, each)
        assert changes == ()
    return state


def whole(state: UsageState) -> Tally:
    return sum((row.tally for row in state.rows), Tally())


@given(events=histories())
def test_every_call_counts_once_with_what_it_came_to(events: list[AgentEvent]) -> None:
    ended = [e for e in events if isinstance(e, ModelReplied | ModelCallFailed)]
    tokens = [tokens_of(end) for end in ended]

    tally = whole(fold(envelopes([CREATED, *events])))

    assert tally.calls == sum(isinstance(event, ModelCalled) for event in events)
    assert tally.failed == sum(isinstance(event, ModelCallFailed) for event in events)
    assert tally.prompt_tokens == sum(each.prompt for each in tokens)
    assert tally.completion_tokens == sum(each.completion for each in tokens)
    assert tally.estimated == sum(each.estimated for each in tokens)


@given(events=histories())
def test_it_says_what_the_session_says(events: list[AgentEvent]) -> None:
    log = envelopes([CREATED, *events])
    session = Session()
    for each in log:
        session = evolve(session, each)

    tally, usage = whole(fold(log)), session.usage

    assert (tally.calls, tally.estimated) == (usage.calls, usage.estimated)
    assert (tally.prompt_tokens, tally.completion_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
    )
    assert tally.cached_tokens == usage.cached_tokens


@given(events=histories(), cut=st.integers(0, 30))
def test_stored_and_read_again_it_goes_on_where_it_was(events: list[AgentEvent], cut: int) -> None:
    log = envelopes([CREATED, *events])

    stored = USAGE.encode_state(fold(log[:cut]))

    assert fold(log[cut:], USAGE.decode_state(stored)) == fold(log)


@given(events=histories())
def test_it_is_the_same_without_deltas_and_without_words(events: list[AgentEvent]) -> None:
    log = envelopes([CREATED, *events, SessionDeleted()])
    bare = [each for each in log if not isinstance(each.event, TextDelta)]

    erased = [replace(each, event=without_its_words(each.event)) for each in log]

    assert fold(bare) == fold(log)
    assert fold(erased) == fold(log)


def without_its_words(event: AgentEvent) -> AgentEvent:
    name = type_of(event)
    return DECODER.decode(name, version_of(event), without_words(name, encode_data(event)))


@given(shared=histories(), own=histories())
def test_a_fork_counts_its_own_calls_and_not_those_of_its_origin(
    shared: list[AgentEvent], own: list[AgentEvent]
) -> None:
    origin = [CREATED, *shared]
    begins = replace(CREATED, forked_from=Origin(session_id=SESSION, seq=len(origin)))

    forked = fold(envelopes([*origin, begins, *own]))

    assert forked.rows == fold(envelopes([begins, *own], after=len(origin))).rows


def test_a_call_counts_on_the_day_on_which_it_was_made() -> None:
    late = MIDNIGHT - timedelta(minutes=2, seconds=30)
    counted = Counts(prompt_tokens=5, completion_tokens=1)

    state = fold(envelopes([CREATED, called(1), replied(1, counted), called(2)], at=late))

    days = [(row.kind.day, row.tally.calls, row.tally.prompt_tokens) for row in state.rows]
    assert days == [("2026-11-21", 1, 5), ("2026-11-22", 1, 0)]


def test_a_call_of_an_old_log_is_of_the_profile_that_the_session_had() -> None:
    switched = ProfileSwitched(from_profile="assistant", to_profile="developer", by="user")

    state = fold(envelopes([CREATED, called(1), switched, called(2), called(3, profile_id="x")]))

    assert [row.kind.profile for row in state.rows] == ["assistant", "developer", "x"]
    assert state.owner == ANNA
