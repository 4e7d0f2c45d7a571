"""Who is given the next slot of a model server."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from navi.domain.model_calls.model_queue import (
    MAX_QUIET_SECONDS,
    QUIET_SECONDS,
    Line,
    Ticket,
    begun,
    cut_off,
    joined,
    left,
    next_up,
    served,
    undisturbed,
)
from navi.domain.vocabulary.ids import Owner, SessionId


def ticket(number: int, session: str, *, owner: str = "me", follows: bool = False) -> Ticket:
    return Ticket(number=number, owner=Owner(owner), session_id=SessionId(session), follows=follows)


def line_of(sessions: str, *, slots: int = 1, running: tuple[Ticket, ...] = ()) -> Line:
    """A line in which calls of these sessions, a letter each, arrived in this order."""
    line = Line(slots=slots, running=running)
    for number, session in enumerate(sessions, start=1):
        line = joined(line, ticket(number, session))
    return line


def line_of_people(calls: Iterable[tuple[str, str]], *, slots: int = 1) -> Line:
    """A line in which calls of these owners, each in a session, arrived in this order."""
    line = Line(slots=slots)
    for number, (owner, session) in enumerate(calls, start=1):
        line = joined(line, ticket(number, f"{owner}/{session}", owner=owner))
    return line


def order(line: Line) -> str:
    return "".join(waiting.session_id for waiting in next_up(line))


def test_sessions_take_turns_however_many_calls_one_of_them_has() -> None:
    assert order(line_of("aaaabbc")) == "abcabaa"


def test_people_take_turns_however_many_sessions_one_of_them_has() -> None:
    line = line_of_people(
        [*(("a", str(n)) for n in range(100)), ("b", "1"), ("c", "1"), ("b", "1")]
    )

    assert [one.owner for one in next_up(line, at_most=6)] == ["a", "b", "c", "a", "b", "a"]


def test_who_has_calls_at_work_in_any_session_comes_after_who_has_none() -> None:
    line, _ = served(line_of_people([("a", "1"), ("a", "2"), ("a", "3"), ("b", "1")], slots=2))

    assert [one.session_id for one in line.running] == ["a/1", "b/1"]


def test_a_session_whose_call_is_at_work_comes_after_those_without_one() -> None:
    assert order(line_of("ab", running=(ticket(9, "a"),))) == "ba"


def test_a_place_that_was_told_is_not_taken_away_when_a_call_ends() -> None:
    line = line_of("ab", running=(ticket(9, "a"),))

    assert order(left(line, 9)) == order(line)


def test_who_was_served_goes_to_the_end() -> None:
    line, [first] = served(line_of("aab"))
    line = left(line, first.number)

    assert (first.session_id, order(line)) == ("a", "ba")


def test_nobody_is_passed_by_more_than_a_round() -> None:
    """However many others arrive, a call is served after those that waited before it."""
    line = line_of("aabc")
    waited = 0
    for arrival in range(100):
        line, [got] = served(line)
        if got.number == 2:
            break
        waited += 1
        line = left(line, got.number)
        line = joined(line, ticket(100 + arrival, f"new{arrival}"))

    assert waited == 3


def test_a_follow_up_is_no_reason_for_a_person_to_come_later() -> None:
    line = begun(Line(slots=2), ticket(9, "a", follows=True))
    line = joined(joined(line, ticket(1, "a")), ticket(2, "b"))

    assert order(line) == "ab"


def test_follow_ups_that_are_cut_off_wait_for_longer_each_time() -> None:
    line = Line(slots=1)
    quiet = [line.quiet]
    for _ in range(10):
        line = cut_off(line)
        quiet.append(line.quiet)

    assert quiet[:3] == [QUIET_SECONDS, 2 * QUIET_SECONDS, 4 * QUIET_SECONDS]
    assert quiet[-1] == MAX_QUIET_SECONDS
    assert undisturbed(line).quiet == QUIET_SECONDS


CALLS = st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=40)


@given(calls=CALLS, slots=st.integers(1, 4))
def test_every_call_is_served_once_and_never_more_at_a_time_than_there_are_slots(
    calls: list[tuple[str, bool]], slots: int
) -> None:
    line, got = Line(slots=slots), list[Ticket]()
    for number, (session, leaves) in enumerate(calls):
        line, now = served(joined(line, ticket(number, session)))
        got += now
        assert len(line.running) <= slots
        if leaves and line.running:
            line, now = served(left(line, line.running[0].number))
            got += now
    while line.running:
        line, now = served(left(line, line.running[0].number))
        got += now

    assert sorted(one.number for one in got) == list(range(len(calls)))
    assert (line.waiting, line.turns, line.owners) == ((), {}, {})


@given(sessions=st.text("abcde", max_size=30))
def test_no_session_is_more_than_one_call_ahead_of_another_that_waits(sessions: str) -> None:
    left_of = Counter(sessions)
    served_of: Counter[str] = Counter()

    for session in order(line_of(sessions)):
        assert all(served_of[session] <= served_of[other] for other in left_of if left_of[other])
        served_of[session] += 1
        left_of[session] -= 1

    assert served_of == Counter(sessions)


@given(calls=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12345")), max_size=30))
def test_nobody_is_more_than_one_call_ahead_of_another_who_waits(
    calls: list[tuple[str, str]],
) -> None:
    left_of = Counter(owner for owner, _ in calls)
    served_of: Counter[str] = Counter()

    for one in next_up(line_of_people(calls)):
        owner = one.owner
        assert all(served_of[owner] <= served_of[other] for other in left_of if left_of[other])
        served_of[owner] += 1
        left_of[owner] -= 1

    assert served_of == Counter(owner for owner, _ in calls)
