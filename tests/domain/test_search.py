"""Questions, what fits them, and what of it is shown."""

import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.context.messages import Message
from navi.domain.reading.search import (
    SNIPPET,
    Question,
    Term,
    closeness,
    is_said,
    parse_question,
    said_with,
    snippet_of,
)
from navi.domain.vocabulary.events import Said

AT = datetime(2026, 11, 22, tzinfo=UTC)


def asked(text: str) -> Question:
    question = parse_question(text)
    assert question is not None
    return question


def test_a_question_has_words_phrases_and_what_is_not_wanted() -> None:
    assert asked('green "in this order" -without notes/a.txt') == Question(
        wanted=(
            Term(words=("green",)),
            Term(words=("in", "this", "order")),
            Term(words=("notes", "a", "txt"), begins=True),
        ),
        unwanted=(Term(words=("without",)),),
    )
    assert asked('"half open').wanted == (Term(words=("half", "open")),)


@pytest.mark.parametrize("text", ["", "  ", "!!! & | :*", "-without", '"', "_ - '"])
def test_a_question_without_a_wanted_word_is_none(text: str) -> None:
    assert parse_question(text) is None


@pytest.mark.parametrize(
    ("question", "text", "fits"),
    [
        ("tea", "Buy TEA.", True),
        ("te", "Buy tea", True),  # the last word may go on
        ("te buy", "Buy tea", False),  # the others may not
        ("ea", "Buy tea", False),
        ("buy tea", "tea? I'd buy it", True),
        ('"buy tea"', "tea? I'd buy it", False),
        ('"buy tea"', "buy: tea", True),
        ("tea -milk", "tea with milk", False),
        ("tea -milk", "tea with lemon", True),
        ("notes/a.txt", "wrote notes/a.txt now", True),
        ("3.1", "pi is 3.14", True),
        ("straße", "STRASSE", False),
        ("größe", "die GRÖSSE? Größe!", True),
        ("日本", "日本語", True),
        ("c++", "C is a language", True),
        ("हिन्दी", "नमस्ते हिन्दी!", True),
        ("नमस्ते हिन्दी", "हिन्दी, नमस्ते", True),
        ('"नमस्ते हिन्दी"', "नमस्ते, हिन्दी", True),
        ("हिन", "हिन्दी", True),
        ("हिन x", "हिन्दी x", False),
        ("न्दी", "हिन्दी", False),
        ("می‌خواهم", "چای می‌خواهم", True),
        ("خواهم", "چای می‌خواهم", False),
        ("tea", "\u2764\ufe0ftea", True),
    ],
)
def test_what_fits(question: str, text: str, fits: bool) -> None:
    assert is_said(asked(question), text) is fits


def test_the_whole_question_is_closer_than_its_words_and_these_than_a_beginning() -> None:
    question = asked("green tea")

    texts = ("I like green tea.", "tea, if it is green", "green teapots")

    assert [closeness(question, text) for text in texts] == [2, 1, 0]


def test_a_snippet_is_one_line_around_the_first_match() -> None:
    text = f"{'before ' * 40}\n\nthe green\ttea is {'after ' * 60}"

    snippet = snippet_of(asked("green tea"), text)

    assert (snippet.text[:8], snippet.text[-7:]) == ("… before", "after …")
    assert [snippet.text[start:end] for start, end in snippet.matches] == ["green", "tea"]
    assert abs(len(snippet.text) - SNIPPET) < 20
    assert snippet_of(asked("tea"), "tea").text == "tea"


def test_matches_are_counted_in_code_points() -> None:
    assert snippet_of(asked("tea"), "🍵🍵 tea").matches == ((3, 6),)


def test_a_snippet_shows_the_place_with_the_most_of_the_question() -> None:
    text = f"tea {'x ' * 300} green cups of tea {'y ' * 300}"

    assert "green cups of tea" in snippet_of(asked("tea green cups"), text).text


@pytest.mark.parametrize("terms", [["a", "b"] * 125, [f"{number}" for number in range(130)]])
def test_a_snippet_looks_at_few_places_however_many_words_are_asked_for(terms: list[str]) -> None:
    text = " ".join(sorted(terms, reverse=True) * 200)
    tracemalloc.start()
    try:
        snippet_of(asked(" ".join(terms)), text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000  # of each place that is looked at some 100 bytes are held


def test_results_summaries_and_subagents_have_not_said_it() -> None:
    def message(**fields: object) -> Message:
        common = {"seq": 1, "role": "assistant", "content": "tea", "at": AT, "turn_id": None}
        return Message(**(common | fields))  # pyright: ignore[reportArgumentType] - of a test

    taken_in = (Said(role="user", content="one"), Said(role="assistant", content="two"))
    assert said_with(message()) == "tea"
    assert said_with(message(role="user", content="", taken_in=taken_in)) == "one\ntwo"
    assert said_with(message(role="tool")) is None
    assert said_with(message(is_compression=True)) is None
    assert said_with(message(is_subagent=True)) is None


@given(st.text(max_size=60), st.text(max_size=400))
def test_any_question_of_any_text_is_answered(question: str, text: str) -> None:
    parsed = parse_question(question)
    if parsed is None:
        return

    snippet = snippet_of(parsed, text)

    assert "\n" not in snippet.text
    if is_said(parsed, text):
        assert closeness(parsed, text) in (0, 1, 2)
        assert snippet.matches
    for start, end in snippet.matches:
        assert 0 <= start < end <= len(snippet.text)
