"""The line that a person writes in a chat: what is completed, what is sent, what is a command."""

import asyncio
from collections.abc import Mapping

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from navi.cli.chat.look_back import nth_last
from navi.cli.chat.prompt_line import Completions, chat_lines, completed, is_command
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.remote import RemoteMessage

COMMANDS = ("/profile", "/stop", "/sessions")


def known(command: str) -> Mapping[str, str]:
    return {
        "/profile": {"assistant": "for every day", "tutor": "explains"},
        "": {"plan.md": "upload", "planets.csv": ""},
    }.get(command, {})


async def sent(keys: str) -> str:
    """What becomes a message when these keys are pressed as fast as can be."""
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        with create_app_session(input=pipe, output=DummyOutput()):
            lines = chat_lines(InMemoryHistory(), Completions(COMMANDS, known))
            return await lines.prompt_async("> ")


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


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("/p\t\r", "/profile"),  # nobody waits for a completion before Enter
        ("/profile t\t\r", "/profile tutor"),
        ("/s\tt\t\r", "/stop"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\x1b\ntwo\n", "one\ntwo"),  # as a terminal passes on what was typed ahead
    ],
)
async def test_keys_become_a_message(keys: str, message: str) -> None:
    assert await sent(keys) == message


async def test_tab_goes_through_the_menu() -> None:
    def profiles(command: str) -> Mapping[str, str]:
        del command
        return {"assistant": "", "autonomous": ""}

    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        lines = chat_lines(InMemoryHistory(), Completions(COMMANDS, profiles))
        opened = asyncio.Event()

        def note(_: object) -> None:
            opened.set()

        lines.default_buffer.on_completions_changed += note
        message = asyncio.create_task(lines.prompt_async("> "))
        pipe.send_text("/profile a\t")
        await opened.wait()
        pipe.send_text("\t\t\r")

        assert await message == "/profile autonomous"


@pytest.mark.parametrize(
    ("text", "word", "meaning"),
    [("/profile t", "tutor", "explains"), ("look at plan.", "plan.md", "upload")],
)
def test_a_completion_says_what_it_stands_for(text: str, word: str, meaning: str) -> None:
    offered = Completions(COMMANDS, known).get_completions(
        Document(text), CompleteEvent(completion_requested=True)
    )

    assert [(one.text, one.display_meta_text) for one in offered] == [(word, meaning)]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("/stop", True),
        ("/nothing at all", True),
        ("/Quit", True),
        ("/open-x y", True),
        ("/?", True),
        ("/", True),
        ("/etc/hosts says what?", False),
        ("/notes.md says what?", False),
        ("and /stop", False),
    ],
)
def test_a_command_is_a_slash_and_one_word_and_a_path_is_none(line: str, answer: bool) -> None:
    assert is_command(line) == answer


def test_outputs_are_counted_from_the_last() -> None:
    outputs = [RemoteMessage(role="tool", content=text, name="todo") for text in ("a", "b")]

    assert (nth_last(outputs, "").content, nth_last(outputs, "2").content) == ("b", "a")
    for wrong in ("0", "3", "x"):
        with pytest.raises(CommandFailed, match=r"1 .* to 2"):
            nth_last(outputs, wrong)
    with pytest.raises(CommandFailed, match="no tool"):
        nth_last([], "")
