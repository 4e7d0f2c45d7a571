import pytest

from navi.domain.reading.changed_words import changed_words


def marked(before: str, after: str) -> tuple[str, str]:
    sides = changed_words(before, after)
    first, second = (
        "".join(f"[{text}]" if changed else text for text, changed in side) for side in sides
    )
    return first, second


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("a quick fox", "a slow fox", ("a [quick] fox", "a [slow] fox")),
        ("a fox", "a red fox", ("a fox", "a [red ]fox")),
        ("one two three", "one 2 3", ("one [two three]", "one [2 3]")),
        ("same", "same", ("same", "same")),
        ("", "new", ("", "[new]")),
        ('{"n":1}', '{"n":2}', ('{"n":[1]}', '{"n":[2]}')),
    ],
)
def test_only_the_words_that_changed_are_marked(
    before: str, after: str, words: tuple[str, str]
) -> None:
    assert marked(before, after) == words


def test_the_pieces_of_a_side_are_its_text() -> None:
    before, after = changed_words("x " * 3_000, "y " * 3_000)

    assert (before, after) == ((("x " * 3_000, True),), (("y " * 3_000, True),))
