"""By what a conversation that another program keeps is known again, and where it goes on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from navi.domain.reading.conversation import (
    WAITING,
    Continuation,
    KnownConversation,
    beginning,
    continuation,
    marks_of,
    notice_of_waiting,
    plain_words,
)
from navi.domain.vocabulary.events import Said
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner, SessionId

A, B = (
    SessionId("01990000-0000-7000-8000-00000000000a"),
    SessionId("01990000-0000-7000-8000-00000000000b"),
)
HEAD = 99
START = beginning(LOCAL_OWNER, None)
ASKED, ANSWERED = Said(role="user", content="Which tea?"), Said(role="assistant", content="Assam.")
AGAIN = Said(role="user", content="And then?")
MORE = Said(role="assistant", content="Then milk, of course.")
TALK = (ASKED, ANSWERED, AGAIN, MORE)


def known(*said: Said, session_id: SessionId = A, until: int | None = None) -> KnownConversation:
    """A session with these exchanges; the place of each message is ten times its number."""
    marks = marks_of(START, said)
    asked = max((n for n, one in enumerate(said, start=1) if one.role == "user"), default=0)
    return KnownConversation(
        session_id=session_id,
        seq=HEAD,
        places={mark: 10 * n for n, mark in enumerate(marks[:until]) if n},
        mark=marks[-1],
        asked_mark=marks[asked] if asked else "",
        answer=said[-1].content if said and said[-1].role == "assistant" else "",
    )


def goes_on(history: tuple[Said, ...], *sessions: KnownConversation) -> Continuation | None:
    return continuation(marks_of(START, history), history, sessions)


def here(count: int, session_id: SessionId = A, behind: str | None = None) -> Continuation:
    return Continuation(session_id=session_id, as_of=HEAD, known=count, fork_at=None, behind=behind)


def fork(count: int, session_id: SessionId = A) -> Continuation:
    return Continuation(session_id=session_id, as_of=HEAD, known=count, fork_at=10 * count)


def test_it_goes_on_in_the_session_that_ends_with_it() -> None:
    assert goes_on(TALK, known(*TALK)) == here(4)


def test_beside_a_message_that_waits_it_goes_on_in_a_fork() -> None:
    waiting = replace(known(*TALK), waits=True)

    assert goes_on(TALK, waiting) == fork(4)
    assert goes_on(TALK[:3], replace(known(*TALK[:3], until=4), waits=True)) == fork(3)
    assert goes_on(TALK, waiting, known(*TALK, session_id=B)) == here(4, B)


def test_what_no_session_knows_is_new() -> None:
    assert goes_on(TALK, known(AGAIN, MORE)) is None
    assert goes_on((), known(*TALK)) is None


def test_an_edited_message_or_another_answer_wanted_is_a_fork_before_it() -> None:
    assert goes_on((ASKED, ANSWERED), known(*TALK)) == fork(2)


def test_an_edited_answer_is_a_fork_behind_the_question() -> None:
    edited = replace(MORE, content="Sugar.")

    assert goes_on((ASKED, ANSWERED, AGAIN, edited), known(*TALK)) == fork(3)


def test_of_several_the_one_that_knows_most_counts_then_one_that_came_no_further() -> None:
    first = known(ASKED, ANSWERED, session_id=B)

    assert goes_on(TALK, first, known(*TALK)) == here(4)
    assert goes_on((ASKED, ANSWERED), known(*TALK), first) == here(2, B)


@pytest.mark.parametrize("seen", ["Then", "Then milk, of course.", "Then\n milk,", ""])
def test_of_an_answer_that_was_stopped_a_part_is_enough(seen: str) -> None:
    stopped = replace(known(*TALK), unsettled=True)
    part = Said(role="assistant", content=seen)
    history = (ASKED, ANSWERED, AGAIN, *((part,) if seen else ()))

    whole = seen.startswith(MORE.content)
    behind = None if whole else marks_of(START, history)[-1]
    assert goes_on(history, stopped) == here(len(history), behind=behind)


@pytest.mark.parametrize(
    "seen", [None, "", notice_of_waiting(["ssh"], "http://127.0.0.1:8000/s/1")]
)
def test_a_message_that_waits_may_be_known_by_its_notice_alone(seen: str | None) -> None:
    queued = marks_of(START, TALK[:3])[-1]
    waiting = replace(known(*TALK[:1]), queued_mark=queued)
    told = () if seen is None else (Said(role="assistant", content=seen),)
    history = (*TALK[:3], *told)

    assert goes_on(history, waiting) == here(len(history), behind=marks_of(START, history)[-1])
    assert goes_on((*TALK[:3], MORE), waiting) == fork(1)


def test_of_an_answer_that_was_not_stopped_a_part_is_another_one() -> None:
    part = Said(role="assistant", content="Then")

    assert goes_on((ASKED, ANSWERED, AGAIN, part), known(*TALK)) == fork(3)


def test_another_owner_and_another_conversation_have_other_marks() -> None:
    starts = {
        beginning(LOCAL_OWNER, None),
        beginning(Owner("ada"), None),
        beginning(LOCAL_OWNER, "c"),
    }

    assert len({marks_of(start, TALK)[-1] for start in starts}) == 3


@pytest.mark.parametrize(
    "kept",
    [
        "  It is\n\n tea. ",
        '<details type="reasoning" done="true">\n> hm\n</details>\nIt is tea.',
        "<think>hm\n</think>It is tea.",
        f"It is tea.\n\n{notice_of_waiting(['ssh', 'ssh'], 'http://127.0.0.1:8000/s/1')}",
    ],
)
def test_what_a_chat_page_keeps_around_an_answer_does_not_count(kept: str) -> None:
    assert plain_words(Said(role="assistant", content=kept)) == "It is tea."


def test_of_a_user_only_blanks_do_not_count() -> None:
    assert plain_words(Said(role="user", content=" <think>x</think>\n y")) == "<think>x</think> y"


# The rule as it was first told: marks are stored, so what is left out is the same for ever.
THINKING = re.compile(
    r"<details type=\"(?:reasoning|tool_calls)\".*?</details>|<think>.*?</think>", re.DOTALL
)
NOTICE = re.compile(rf"\s*{re.escape(WAITING)}.*", re.DOTALL)
KEPT = st.lists(
    st.sampled_from(
        [
            *"ab< \n\u2003\x1f",
            "<think>",
            "</think>",
            '<details type="reasoning"',
            WAITING,
            WAITING[:5],
            '<details type="tool_calls"',
            "<details>",
            "</details>",
        ]
    ),
    max_size=12,
).map("".join)


@given(kept=KEPT)
def test_what_does_not_count_stays_the_same_for_ever(kept: str) -> None:
    first_told = " ".join(NOTICE.sub("", THINKING.sub(" ", kept)).split())

    assert plain_words(Said(role="assistant", content=kept)) == first_told


@pytest.mark.timeout(60)  # minutes where each beginning, or blank, has all behind it looked through
@pytest.mark.parametrize(
    ("kept", "plain"),
    [
        ("<think>" * 300_000, "<think>" * 300_000),
        ("<think>" * 300_000 + "</details></think>a", "a"),
        (
            '<details type="reasoning"\n' * 100_000,
            " ".join(['<details type="reasoning"'] * 100_000),
        ),
        (f"a{' ' * 1_000_000}b", "a b"),
    ],
    ids=["begun", "ended", "details", "blanks"],
)
def test_a_long_text_is_gone_through_once(kept: str, plain: str) -> None:
    assert plain_words(Said(role="assistant", content=kept)) == plain
