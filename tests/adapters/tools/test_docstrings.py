"""What a docstring says of parameters becomes theirs, in Google's and in NumPy's style."""

import inspect

import pytest

from navi.adapters.tools.own_tools.docstrings import parse_docstring

GOOGLE = """Look up the weather.

    Ask only for cities.

    Args:
        city: where, by its
            usual name: in English
        days (int, optional): how many days

        context: what is given.

    Returns:
        A sentence.
    """

NUMPY = """Look up the weather.

    Parameters
    ----------
    city, town : str
        Where, by its
        usual name.
    days : int, optional
        How many days.
    bare
        Something.

    Returns
    -------
    str
        A sentence.
    """


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (
            GOOGLE,
            "Look up the weather.\n\nAsk only for cities.\n\nReturns:\n    A sentence.",
            {
                "city": "where, by its usual name: in English",
                "days": "how many days",
                "context": "what is given.",
            },
        ),
        (
            NUMPY,
            "Look up the weather.\n\nReturns\n-------\nstr\n    A sentence.",
            {
                "city": "Where, by its usual name.",
                "town": "Where, by its usual name.",
                "days": "How many days.",
                "bare": "Something.",
            },
        ),
        ("Say it.", "Say it.", {}),
        ("", "", {}),
        ("Args:", "Args:", {}),
        ("Args:\nnothing is indented: here", "Args:\nnothing is indented: here", {}),
        ("Parameters\n----------", "", {}),
        ("Parameters\n---\nx : int\n    It.\n\nAll else stays.", "All else stays.", {"x": "It."}),
        ("One.\n\nArgs:\n  x: It.\nMore.", "One.\n\nMore.", {"x": "It."}),
        ("One.\n\nArgs:\n  x: It.\n\nKeyword Args:\n  y: Too.", "One.", {"x": "It.", "y": "Too."}),
    ],
)
def test_sections_on_parameters_are_taken_out_of_the_description(
    text: str, description: str, parameters: dict[str, str]
) -> None:
    assert parse_docstring(inspect.cleandoc(text)) == (description, parameters)
