"""Differences in lines that a person reads."""

import hypothesis.strategies as st
from hypothesis import given

from navi.domain.reading.difference_words import event_line, excerpts, field_lines
from navi.domain.vocabulary.events import JsonObject


def test_what_begins_to_differ_late_is_shown_where_it_does() -> None:
    same = "word " * 40

    before, after = excerpts(f"{same}tea and more", f"{same}milk", width=30)

    assert before.startswith("…")
    assert ("tea" in before, "milk" in after) == (True, True)


def test_white_space_is_shown_where_nothing_else_differs() -> None:
    assert excerpts("a\nb", "a b", width=30) == ('"a\\nb"', '"a b"')


@given(st.text(), st.text(), st.integers(10, 100))
def test_lines_have_the_room_they_are_given(before: str, after: str, width: int) -> None:
    assert all(len(line) <= width for line in excerpts(before, after, width=width))


def test_fields_are_told_by_name_and_texts_in_place_of_their_hashes() -> None:
    before, after = {"model": "a", "system_sha256": "1"}, {"system_sha256": "2", "more": [1]}
    texts = {"1": "You are navi.", "2": "You are somebody."}

    assert field_lines(
        before, after, ["system_sha256", "model", "more"], width=80, texts=texts
    ) == [
        "- system: You are navi.",
        "+ system: You are somebody.",
        "- model: a",
        "+ more: [1]",
    ]
    assert field_lines(before, after, ["system_sha256", "model"], width=80) == ["- model: a"]


def test_an_event_is_told_without_what_is_empty() -> None:
    data: JsonObject = {
        "purpose": "turn",
        "system_sha256": "1",
        "error": "",
        "tool_calls": [],
        "calls": 0,
    }

    assert event_line("7 model_called", data) == "7 model_called purpose=turn"
