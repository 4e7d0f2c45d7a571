"""A model names the tools that it calls, and may name them anything: no terminal obeys such a name."""

from datetime import UTC, datetime
from io import StringIO

import click
import msgspec
import pytest
from rich.console import Console

from navi.cli.chat.look_back import show_output
from navi.cli.reading.marked_lines import print_versions
from navi.cli.reading.replay import print_message
from navi.cli.reading.show import lines_of
from navi.cli.shared.remote import open_remote
from navi.domain.context.messages import Message
from navi.domain.vocabulary.events import ToolCall
from navi.domain.vocabulary.ids import CallId, TurnId
from navi.projections.turn_glance import Glance, GlanceLine
from tests.support.web_server import answer, web_server

NAME = "a\x1b]0;x\x07b\x9b"  # a terminal takes it for a title of its window
SHOWN = "a]0;xb"
AT = datetime(2026, 11, 22, tzinfo=UTC)
SESSION = "01970000-0000-7000-8000-000000000000"


def message(role: str, **more: object) -> Message:
    given = {"seq": 7, "role": role, "content": "", "at": AT, "turn_id": None, **more}
    return msgspec.convert(given, Message)


def test_replay_prints_the_name_and_the_arguments_of_a_call_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ToolCall(id=CallId("call_1"), name=NAME, arguments={"text": "c\x9bd"})

    print_message(message("assistant", tool_calls=(call,)))
    print_message(message("tool", name=NAME))

    assert capsys.readouterr().out.splitlines() == [
        "     7  assistant",
        f'        calls {SHOWN} {{"text":"cd"}}',
        f"     7  tool {SHOWN}",
    ]


def test_show_prints_the_name_of_a_call_without_control_characters() -> None:
    turn = Glance(
        turn_id=TurnId("turn"),
        number=1,
        outcome="completed",
        started_at=AT,
        seconds=1.0,
        waited_seconds=0.0,
        calls=1,
        tools=1,
        prompt_tokens=0,
        completion_tokens=0,
        lines=(
            GlanceLine(seq=7, at=AT, kind="tool", name=NAME, state="error"),
            GlanceLine(seq=8, at=AT, kind="plan", name=NAME),
        ),
    )

    shown = [click.unstyle(line) for line in lines_of(turn, turns=1, width=80)[2:]]

    assert shown == [
        f"     7     +0.00 s  tool {SHOWN}  error",
        f"     8     +0.00 s  plan ({SHOWN})",
    ]


def test_diff_prints_what_stands_in_front_of_the_words_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_versions((f"7 tool {NAME}: ", "one"), (f"7 tool {NAME}: ", "two"), 80)

    assert capsys.readouterr().out.splitlines() == [
        f"- 7 tool {SHOWN}: one",
        f"+ 7 tool {SHOWN}: two",
    ]


async def test_a_chat_shows_the_name_above_an_output_without_control_characters() -> None:
    body = msgspec.json.encode({"messages": [{"role": "tool", "name": NAME, "content": "done"}]})
    page = answer(body, kind="application/json")
    shown = StringIO()

    with web_server({f"/sessions/{SESSION}/messages": page}) as server:
        async with open_remote(server.url, token=None) as navi:
            await show_output(navi, SESSION, "", Console(file=shown))

    assert shown.getvalue() == f"{SHOWN}\ndone\n"
