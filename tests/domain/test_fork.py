"""Where a session may be forked, and what the fork owes: nothing."""

from navi.domain.session.commands import ForkSession, ReceiveMessage
from navi.domain.session.fork import last_forkable
from navi.domain.session.session import OpenTurn, Session, Wait, next_step
from navi.domain.vocabulary.errors import RuleBroken
from navi.domain.vocabulary.events import (
    AgentEvent,
    MessageWithdrawn,
    Origin,
    ProfileSwitched,
    SessionCreated,
    SessionPinned,
    SessionRenamed,
    SubagentFinished,
    TextDelta,
    ToolCall,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, SessionId, SubagentId
from tests.domain.specification import (
    NODE,
    SESSION,
    START,
    TURN,
    Specification,
    envelope,
    fold,
    perform,
)
from tests.domain.test_actors import SUB, called, replied, spawned, started
from tests.domain.test_session import CREATED, OPEN, finished

BATCH = (
    ToolCall(id=CallId("a"), name="t", arguments={}),
    ToolCall(id=CallId("b"), name="t", arguments={}),
)


def said(number: int) -> UserMessageReceived:
    return UserMessageReceived(message_id=MessageId(f"m{number}"), content="x")


def forkable_places(*events: AgentEvent | tuple[AgentEvent, SubagentId]) -> list[int]:
    """For each event of a turn the place to which a fork there is moved."""
    log = [
        envelope(
            event[0] if isinstance(event, tuple) else event,
            seq=seq,
            turn_id=TURN if seq > 2 else None,
            subagent_id=event[1] if isinstance(event, tuple) else None,
        )
        for seq, event in enumerate(events, start=1)
    ]
    found = [last_forkable(Session(), log[:at]) for at in range(len(log) + 1)]
    return [session.seq for session in found if session is not None]


def test_a_call_that_is_open_moves_the_fork_before_it() -> None:
    delta = TextDelta(call_id=CallId("c1"), text="Hi")

    places = forkable_places(*OPEN, called("c1"), delta, replied("c1"))

    assert places == [0, 1, 2, 3, 4, 4, 4, 7]


def test_a_batch_of_tools_is_kept_together_with_the_reply_that_asked_for_it() -> None:
    run = [event for call in BATCH for event in (started(call), finished(call))]

    places = forkable_places(*OPEN, called("c1"), replied("c1", *BATCH), *run, called("c2"))

    assert places == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 10, 10]


def test_a_subagent_is_kept_together_with_the_call_that_spawned_it() -> None:
    places = forkable_places(
        *OPEN,
        called("c1"),
        replied("c1", BATCH[0]),
        started(BATCH[0]),
        (spawned(BATCH[0]), SUB),
        (called("c2"), SUB),
        (replied("c2"), SUB),
        (
            SubagentFinished(call_id=CallId("a"), result="", completed_normally=True),
            SUB,
        ),
        finished(BATCH[0]),
    )

    assert places == [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 12]


def test_a_call_beside_the_turns_counts_like_any_other() -> None:
    session = fold((CREATED, called("c1", node=NODE)))

    places = [
        found.seq if found else None
        for found in (
            last_forkable(session, ()),
            last_forkable(session, [envelope(replied("c1"), seq=3)]),
        )
    ]

    assert places == [None, 3]


def fork(session: Session, *, name: str | None = None) -> ForkSession:
    return ForkSession(
        origin=Origin(session_id=SESSION, seq=session.seq),
        profile_id=session.profile_id,
        owner=session.owner,
        name=name,
    )


def forked(session: Session, name: str | None = None) -> SessionCreated:
    return SessionCreated(
        profile_id="assistant",
        owner=LOCAL_OWNER,
        name=name,
        forked_from=Origin(session_id=SESSION, seq=session.seq),
    )


def test_a_fork_ends_the_open_turn_and_withdraws_what_waits() -> None:
    session = fold((*OPEN, said(2), said(3)))

    after = (
        Specification(session)
        .when(fork(session))
        .then(
            forked(session),
            TurnStopped(by="fork"),
            MessageWithdrawn(message_seq=5),
            MessageWithdrawn(message_seq=6),
        )
    )

    assert (after.turn, after.waiting, next_step(after)) == (None, (), Wait())
    assert after.forked_from == Origin(session_id=SESSION, seq=6)


def test_what_stands_in_the_turn_that_a_fork_ends_carries_its_id() -> None:
    session = fold((*OPEN, said(2)))

    _, appended = perform(session, fork(session))

    assert [item.turn_id for item in appended] == [TURN, TURN, None]


def test_a_receipt_without_a_turn_is_withdrawn_and_no_turn_begins() -> None:
    session = fold((CREATED, said(1)))
    assert next_step(session) == OpenTurn()

    after = (
        Specification(session)
        .when(fork(session))
        .then(forked(session), MessageWithdrawn(message_seq=2))
    )

    assert next_step(after) == Wait()
    spoken = ReceiveMessage(message_id=MessageId("m2"), content="on", start=START)
    assert perform(after, spoken)[0].turn is not None


def test_a_fork_keeps_name_and_profile_of_its_moment_and_is_not_pinned() -> None:
    switched = ProfileSwitched(from_profile="assistant", to_profile="developer", by="user")
    session = fold(
        (CREATED, SessionRenamed(name="N", by="auto"), SessionPinned(pinned=True), switched)
    )

    kept, _ = perform(session, fork(session))
    renamed, _ = perform(session, fork(session, name="Mine"))

    assert (kept.profile_id, kept.name, kept.named_by_user, kept.pinned) == (
        "developer",
        "N",
        False,
        False,
    )
    assert (renamed.name, renamed.named_by_user) == ("Mine", True)


def test_a_fork_of_nothing_is_an_empty_session() -> None:
    session = Session(id=SessionId("01990000-0000-7000-8000-000000000002"))
    command = ForkSession(
        origin=Origin(session_id=SESSION, seq=0), profile_id="assistant", owner=LOCAL_OWNER
    )

    after = Specification(session).when(command).then(forked(session))

    assert after.exists


def test_a_fork_at_an_open_call_is_refused() -> None:
    session = fold((*OPEN, called("c1")))

    Specification(session).when(fork(session)).refused(RuleBroken)
