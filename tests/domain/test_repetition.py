"""Going round in circles: what is found, soon enough, and what is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.model_calls.repetition import (
    FOR_FOLLOW_UPS,
    FOR_PEOPLE,
    PROBES,
    RepetitionLimits,
    answer_before,
    repetition_in,
)

LIMITS = (FOR_PEOPLE, FOR_FOLLOW_UPS)

HEY = "Na na na na-na-na na\nNa-na-na na, hey Jude\n" * 16
TABLE = "| name | size |\n|------|------|\n" + "".join(
    f"| file-{n}.txt | {n * 37 % 1000} |\n" for n in range(300)
)
SAME_CELLS = "| id | state |\n|---|---|\n" + "".join(f"| {n} | done |\n" for n in range(200))
ZEROS = "matrix = [\n" + "    [0, 0, 0, 0, 0, 0, 0, 0],\n" * 64 + "]\n"
CODE = "".join(
    f"def test_{n}() -> None:\n    assert total({n}) == {n * n}\n\n\n" for n in range(200)
)
NUMBERED = "".join(f"{n}. Item number {n} of the list\n" for n in range(1, 400))
RULERS = ("=" * 78 + "\nA heading\n" + "=" * 78 + "\n\n") * 10
A_HUNDRED_LINES = "I will not waste chalk again.\n" * 100
ART = (" " * 60 + "*\n") * 20


@pytest.mark.parametrize(
    "text",
    [HEY, TABLE, SAME_CELLS, ZEROS, CODE, NUMBERED, RULERS, A_HUNDRED_LINES, ART],
    ids=["song", "table", "cells", "zeros", "code", "list", "rulers", "lines", "art"],
)
def test_what_people_ask_for_is_left_alone(text: str) -> None:
    found = [repetition_in(text[:end], FOR_PEOPLE) for end in range(0, len(text) + 1, 97)]

    assert set(found) == {None}


@pytest.mark.parametrize(
    "piece",
    [
        "!",
        "na ",
        "The user is a filesystem.\n",
        "- The user likes tea.\n- The user likes coffee.\n",
        "I will now look at the file and then I will think about it. " * 3,
    ],
)
@pytest.mark.parametrize("limits", LIMITS)
def test_the_same_without_end_is_found(piece: str, limits: RepetitionLimits) -> None:
    text = "Well, let us see.\n" + piece * (1 + 2 * limits.characters // len(piece))

    assert repetition_in(text, limits) is not None


def test_lines_that_differ_in_their_numbers_alone_are_the_same() -> None:
    text = "".join(f"{n}. The user is a filesystem.\n" for n in range(1, 200))

    found = repetition_in(text, FOR_PEOPLE)

    assert found is not None
    assert found.words == "'The user is a filesystem.'"


def test_nothing_but_blanks_is_found() -> None:
    found = repetition_in("So:" + "\n" * FOR_PEOPLE.blanks, FOR_PEOPLE)

    assert found is not None
    assert found.words == "blanks"


@given(
    before=st.text(max_size=200),
    piece=st.text(min_size=1, max_size=PROBES[-1]),
)
def test_any_piece_is_found_whatever_stands_before_it(before: str, piece: str) -> None:
    times = 1 + (FOR_PEOPLE.characters + 200) // len(piece)

    assert repetition_in(before + piece * times, FOR_PEOPLE) is not None


@given(lines=st.lists(st.text(min_size=1), min_size=4, max_size=60, unique=True))
def test_text_that_is_going_somewhere_is_never_found(lines: list[str]) -> None:
    text = "\n".join(f"{line} and {number}" for number, line in enumerate(lines))

    assert repetition_in(text, FOR_PEOPLE) is None


@pytest.mark.parametrize(
    ("piece", "most"),
    [
        ("I am ready to help you. ", 2_200),
        ("I am ready to help you.\n", 110 * 24 + 256),
        ("I am ready to help you.\n\n", 30 * 25 + 256),
        ("Let me look at the file and at what is said in it. " * 4 + "\n\n", 5 * 206 + 256),
    ],
    ids=["words", "lines", "spaced lines", "paragraphs"],
)
def test_words_that_nobody_asks_for_are_found_soon(piece: str, most: int) -> None:
    text = "Well, let us see.\n" + piece * (1 + most // len(piece))

    assert repetition_in(text[:most], FOR_PEOPLE) is not None


ANSWER = "Hello! I can read and write files, and remember what you tell me.\n\n"
PARAGRAPH = (
    "A ship left the harbour at dawn. " * 3 + "It came back in the evening, without its captain."
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (ANSWER + "I am ready. " * 100, ANSWER + "I am ready."),
        (
            ANSWER + "I am ready.\n\nI am here.\n\n" * 60,
            ANSWER + "I am ready.\n\nI am here.",
        ),
        (f"{PARAGRAPH}\n\n" * 8, PARAGRAPH),
        (ANSWER + "\n" * 500, ANSWER.rstrip()),
        ("I am ready. " * 100, ""),
        ("Sure! " + "I am ready.\n" * 100, ""),
        ("", ""),
    ],
    ids=["words", "lines", "paragraph", "blanks", "nothing else", "an opening", "empty"],
)
def test_what_stands_before_a_circle_is_the_answer(text: str, kept: str) -> None:
    assert text[: answer_before(text)] == kept
