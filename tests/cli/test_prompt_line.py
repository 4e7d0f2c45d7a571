from collections.abc import Iterable

import pytest

from navi.cli.chat.look_back import nth_last
from navi.cli.chat.prompt_line import completed
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.remote import RemoteMessage

COMMANDS = ("/profile", "/stop", "/sessions")


def known(command: str) -> Iterable[str]:
    return {"/profile": ("assistant", "tutor"), "": ("plan.md", "planets.csv")}.get(command, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/s", [("/stop", 2), ("/sessions", 2)]),
        ("/profile ", [("assistant", 0), ("tutor", 0)]),
        ("/profile t", [("tutor", 1)]),
        ("/nothing x", []),
        ("look at pla", [("plan.md", 3), ("planets.csv", 3)]),
        ("two lines\nof plan", [("plan.md", 4), ("planets.csv", 4)]),
        ("look at ", []),
        ("", []),
    ],
)
def test_commands_what_they_take_and_files_are_completed(
    text: str, words: list[tuple[str, int]]
) -> None:
    assert completed(text, COMMANDS, known) == words


def test_outputs_are_counted_from_the_last() -> None:
    outputs = [RemoteMessage(role="tool", content=text, name="todo") for text in ("a", "b")]

    assert (nth_last(outputs, "").content, nth_last(outputs, "2").content) == ("b", "a")
    for wrong in ("0", "3", "x"):
        with pytest.raises(CommandFailed, match=r"1 .* to 2"):
            nth_last(outputs, wrong)
    with pytest.raises(CommandFailed, match="no tool"):
        nth_last([], "")
