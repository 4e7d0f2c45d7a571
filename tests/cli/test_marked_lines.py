import pytest

from navi.cli.reading.marked_lines import print_field_lines, print_versions


def test_the_words_that_changed_are_marked_where_there_are_no_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_versions(("5 user: ", "a quick fox"), ("5 user: ", "a slow fox"), 80)
    print_versions(("", "One"), ("", "Three"), 80)
    print_field_lines(["- output: 1 item", "+ output: 2 items", "- gone: x"], 80, indent="  ")

    assert capsys.readouterr().out.splitlines() == [
        "- 5 user: a [-quick-] fox",
        "+ 5 user: a {+slow+} fox",
        "- One",
        "+ Three",
        "  - output: 1 item",
        "  + output: 2 items",
        "  - gone: x",
    ]
