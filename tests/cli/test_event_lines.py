from datetime import UTC, datetime

import click
import pytest
from msgspec.structs import replace

from navi.cli.reading.event_lines import event_line, wanted_types
from navi.cli.shared.command import WrongUsage
from navi.domain.vocabulary.event_codec import encode_data, type_of
from navi.domain.vocabulary.events import (
    AgentEvent,
    MessageWithdrawn,
    ModelReplied,
    TextDelta,
    ToolCall,
    ToolFinished,
    Usage,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, SessionId, SubagentId
from navi.ports.event_log import Recorded

CALL = CallId("01a20559-682c-7bb5-b273-5fa7cf192afd")
REPLY = ModelReplied(
    call_id=CallId("call_1"),
    content="Hello there, this is a long answer.",
    thinking="",
    tool_calls=(),
    finish_reason="stop",
    usage=Usage(prompt_tokens=1_200, completion_tokens=35),
    duration_ms=1_904,
    first_chunk_ms=400,
)
DONE = ToolFinished(
    call_id=CallId("call_1"), name="todo", outcome="ok", output="\x1b[2J", duration_ms=7
)


def row(event: AgentEvent, subagent_id: str | None = None) -> Recorded:
    return Recorded(
        partition=0,
        position=1,
        owner=LOCAL_OWNER,
        session_id=SessionId("0199c0de-0000-7000-8000-000000000001"),
        seq=17,
        id=EventId("0199c0de-0000-7000-8000-000000000011"),
        type=type_of(event),
        v=1,
        at=datetime(2026, 11, 20, 10, 0, 0, 123456, UTC),
        turn_id=None,
        subagent_id=None if subagent_id is None else SubagentId(subagent_id),
        data=encode_data(event),
        salt=None,
        digest=b"",
        hash=b"",
    )


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_a_line_fits_the_terminal(width: int) -> None:
    assert len(click.unstyle(event_line(row(REPLY), width=width))) <= width


def test_a_line_says_how_long_it_took_and_how_many_tokens_it_was() -> None:
    line = click.unstyle(event_line(row(REPLY), width=120))

    assert line.startswith(
        "    17  10:00:00.123  model_replied          1.90 s  1,200+35 tokens  {"
    )


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (TextDelta(call_id=CALL, text="Hel"), 'text_delta      {"text":"Hel","call_id":"01'),
        (
            replace(REPLY, content="", tool_calls=(ToolCall(id=CALL, name="todo", arguments={}),)),
            'model_replied   1.90 s  1,200+35 tokens  {"tool_calls":[{"nam',
        ),
        (DONE, 'tool_finished   0.01 s  {"name":"todo","outcome":"ok","o'),
        (
            MessageWithdrawn(message_seq=4),
            'message_withdrawn  {"message_seq":4}',
        ),
    ],
)
def test_on_a_narrow_terminal_what_was_said_stands_before_ids_and_what_is_empty(
    event: AgentEvent, shown: str
) -> None:
    line = click.unstyle(event_line(row(event), width=80))

    assert line.removeprefix("    17  10:00:00  ").startswith(shown)


def test_in_a_pipe_nothing_is_cut_and_no_control_character_comes_through() -> None:
    line = click.unstyle(event_line(row(DONE, "subagent_0123456789ab"), width=None))

    assert line.startswith(
        "    17  10:00:00.123456  tool_finished          [subagent_0123456789ab]  0.01 s  {"
    )
    assert line.endswith('"duration_ms":7}')
    assert "\x1b" not in line


def test_a_type_that_there_is_not_is_told_with_the_one_that_was_meant() -> None:
    assert wanted_types(["model_called,model_replied", "tool_finished"]) == {
        "model_called",
        "model_replied",
        "tool_finished",
    }
    with pytest.raises(WrongUsage, match="did you mean tool_finished"):
        wanted_types(["tool_finish"])
