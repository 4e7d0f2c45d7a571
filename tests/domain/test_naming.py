"""The name of a session: what the model is asked, and what of its answer is a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.agent.naming import (
    ASK_FOR_NAME,
    MAX_NAME,
    clean_name,
    naming_question,
    without_thinking,
)
from navi.domain.context.prompt import PromptMessage


def test_the_question_for_a_name_stands_behind_the_context_as_one_message() -> None:
    assert naming_question() == (
        PromptMessage(role="user", content=ASK_FOR_NAME, is_guidance=True),
    )


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("Fix the parser", "Fix the parser"),
        ('"Fix the parser."', "Fix the parser"),
        ("„Den Parser reparieren“", "Den Parser reparieren"),
        ("**Title:** Fix the parser", "Fix the parser"),
        ("Session name: `Fix the parser`", "Fix the parser"),
        ("# Fix  the\tparser\n\nIt is about a parser.", "Fix the parser"),
        ("```\nFix the parser\n```", "Fix the parser"),
        ("\n\n- \nFix the parser", "Fix the parser"),
        ("<think>A name?\nHm.</think>\nFix the parser", "Fix the parser"),
        ("A name? Hm.</thinking>Fix the parser", "Fix the parser"),
        ("Fix\0the\x1bparser", "Fix the parser"),
        ("What is C#?", "What is C#?"),
        ("Learn C#", "Learn C#"),
        ("parser " * 20, f"{('parser ' * 8).strip()}…"),
        ("パ" * 80, f"{'パ' * 59}…"),
        ("<think>for ever", None),
        ('"..."', None),
        ("", None),
    ],
)
def test_a_name_is_one_bare_line(answer: str, name: str | None) -> None:
    assert clean_name(answer) == name


@given(st.text(max_size=200))
def test_every_answer_gives_a_fit_name_or_none(answer: str) -> None:
    name = clean_name(answer)

    assert name is None or (0 < len(name) <= MAX_NAME and name.isprintable())
    assert name is None or name == name.strip()


@given(st.text(alphabet="ab \n", max_size=20))
def test_speech_after_thinking_is_left_as_it_is(spoken: str) -> None:
    assert without_thinking(f"<think>so so</think>{spoken}") == spoken.strip()
