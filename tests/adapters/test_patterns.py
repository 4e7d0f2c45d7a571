"""Expressions of operators are looked for in whatever a model writes, and never for long."""

import pytest

from navi.adapters.patterns import search_in_time


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("rm", "a\nrm -rf", True),
        ("^rm", "a\nrm -rf", False),
        (r"(?i)^git (?!push)", "GIT status", True),
        (r"(?i)^git (?!push)", "git push", False),
        ("", "", True),
    ],
)
def test_an_expression_is_searched_in_the_text(expression: str, text: str, found: bool) -> None:
    assert search_in_time(expression, text) is found


def test_an_endless_search_is_not_told() -> None:
    assert search_in_time(r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60_000) is None
