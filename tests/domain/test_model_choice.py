"""Which server is tried next: rules that hold for every list of servers and failures."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from navi.domain.model_calls.model_choice import (
    HOPELESS_STATUSES,
    MAX_DELAY,
    TRIES_A_SERVER,
    Candidate,
    Choice,
    Failure,
    choose,
    sets_aside,
)

A = Candidate("ollama@a", "m")
B = Candidate("ollama@b", "m")
REFUSED = Failure(backend=A.backend, model=A.model, kind="connection")

CANDIDATES = st.lists(
    st.builds(Candidate, st.sampled_from("abc"), st.sampled_from("mn")), max_size=5, unique=True
)
FAILURES = st.lists(
    st.builds(
        Failure,
        backend=st.sampled_from("abc"),
        model=st.sampled_from("mn"),
        kind=st.sampled_from(["connection", "http", "protocol", "timeout_chunk"]),
        status=st.sampled_from([None, 400, 429, 500]),
        tool_calls_came=st.just(value=False),
        retry_after=st.sampled_from([None, 0.0, 5.0, 3600.0]),
        mended=st.booleans(),
    ),
    max_size=4,
)
ASIDE = st.sets(st.sampled_from("abc"))


def test_the_first_one_comes_first() -> None:
    assert choose([A, B], set(), []) == Choice(A, 0.0)


def test_one_that_is_set_aside_waits_for_the_others() -> None:
    assert choose([A, B], {A.backend}, []) == Choice(B, 0.0)
    assert choose([A, B], {A.backend, B.backend}, []) == Choice(A, 0.0)


def test_the_next_one_is_tried_at_once_and_then_none() -> None:
    other = replace(REFUSED, backend=B.backend)

    assert choose([A, B], set(), [REFUSED]) == Choice(B, 0.0)
    assert choose([A, B], set(), [REFUSED, other]) is None


def test_a_request_that_is_too_long_is_not_sent_again_and_is_nobodys_fault() -> None:
    too_long = replace(REFUSED, kind="overflow", status=400)

    assert choose([A, B], set(), [too_long]) is None
    assert not sets_aside(too_long)


def test_what_was_too_long_is_no_try() -> None:
    too_long = replace(REFUSED, kind="overflow", status=400)

    assert choose([A], set(), [too_long, too_long, REFUSED]) == Choice(A, 0.5)


def test_the_only_one_is_tried_three_times_with_growing_pauses() -> None:
    assert choose([A], set(), [REFUSED]) == Choice(A, 0.5)
    assert choose([A], set(), [REFUSED] * 2) == Choice(A, 1.0)
    assert choose([A], set(), [REFUSED] * 3) is None


def test_a_server_that_asks_for_time_gets_some() -> None:
    busy = replace(REFUSED, kind="http", status=503, retry_after=4.0)

    assert choose([A], set(), [busy]) == Choice(A, 4.0)
    assert choose([A], set(), [replace(busy, retry_after=3600.0)]) == Choice(A, MAX_DELAY)


def test_a_request_that_is_wrong_is_not_sent_again() -> None:
    for status in HOPELESS_STATUSES:
        wrong = replace(REFUSED, kind="http", status=status)
        assert choose([A], set(), [wrong]) is None
        assert choose([A, B], set(), [wrong]) == Choice(B, 0.0)
        assert not sets_aside(wrong)


def test_a_request_that_was_mended_is_sent_again_at_once() -> None:
    mended = replace(REFUSED, kind="http", status=400, mended=True)

    assert choose([A, B], set(), [mended]) == Choice(A, 0.0)
    assert not sets_aside(mended)


@given(CANDIDATES, ASIDE, FAILURES)
def test_nothing_is_tried_again_once_calls_came(
    candidates: list[Candidate], aside: set[str], failures: list[Failure]
) -> None:
    came = replace(REFUSED, tool_calls_came=True)

    assert choose(candidates, aside, [*failures, came]) is None


@given(CANDIDATES, ASIDE, FAILURES)
def test_a_choice_is_always_among_the_candidates(
    candidates: list[Candidate], aside: set[str], failures: list[Failure]
) -> None:
    choice = choose(candidates, aside, failures)

    assert choice is None or (choice.candidate in candidates and 0 <= choice.delay <= MAX_DELAY)


@given(CANDIDATES, ASIDE, st.lists(st.sampled_from([REFUSED.kind, "http"]), min_size=20))
def test_no_server_is_tried_more_than_three_times_and_all_end(
    candidates: list[Candidate], aside: set[str], kinds: list[str]
) -> None:
    failures: list[Failure] = []
    for kind in kinds:
        choice = choose(candidates, aside, failures)
        if choice is None:
            break
        tried = choice.candidate
        failed = Failure(
            backend=tried.backend,
            model=tried.model,
            kind="http" if kind == "http" else "connection",
            mended=kind == "http",
        )
        failures.append(failed)

    tries = [failure.backend for failure in failures]
    assert choose(candidates, aside, failures) is None
    assert all(tries.count(backend) <= TRIES_A_SERVER for backend in tries)


@given(CANDIDATES, ASIDE)
def test_every_candidate_gets_its_turn(candidates: list[Candidate], aside: set[str]) -> None:
    failures: list[Failure] = []
    while len(failures) < len(candidates):
        choice = choose(candidates, aside, failures)
        assert choice is not None
        tried = choice.candidate
        failures.append(Failure(backend=tried.backend, model=tried.model, kind="connection"))

    assert {Candidate(failure.backend, failure.model) for failure in failures} == set(candidates)
