"""What weak models get wrong, and what becomes of it: calls written as text, arguments with slips."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec import UNSET

from navi.application.agent.model_calls.show_text import MAX_DELTA
from navi.domain.vocabulary.events import ModelReplied, TextDelta, ToolFinished
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Calls, Done, Say, Stall, calls

WRITTEN = '```json\n{"name": "filesystem", "arguments": {"action": "list"}}\n```'
LIST = {"action": "list"}


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def node(server: ModelServer, tmp_path: Path) -> AsyncGenerator[AgentNode, None]:
    async with agent_node(World(), tmp_path, [server.url]) as node:
        yield node


async def test_a_call_written_as_text_is_run_and_not_shown(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(*(Say(WRITTEN[i : i + 7]) for i in range(0, len(WRITTEN), 7)), Done())
    server.answer(Say("Nothing "), Say("there."), Done())
    session_id = await node.session()

    await node.ask(session_id, "what is there?")

    first, second = await node.events(session_id, ModelReplied)
    [call] = first.tool_calls
    assert (call.name, call.arguments, call.mended) == ("filesystem", LIST, UNSET)
    assert (first.content, first.recognised, first.written) == ("", True, WRITTEN)
    assert (second.content, second.recognised) == ("Nothing there.", UNSET)
    shown = await node.events(session_id, TextDelta)
    assert "".join(delta.text for delta in shown) == "Nothing there."
    [ran] = await node.events(session_id, ToolFinished)
    assert (ran.call_id, ran.outcome) == (call.id, "ok")
    asked = server.chats[1].json["messages"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    assert asked[2]["content"] == ""
    function = asked[2]["tool_calls"][0]["function"]
    assert (function["name"], function["arguments"]) == ("filesystem", LIST)


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "Ada", "arguments": {"for": [1]}}',
        '{"name": "filesystem", "arguments": 3}',
        f'{{"name": "filesystem", "arguments": "{"x" * MAX_DELTA}"}}',
    ],
    ids=["of no tool", "a call until its end", "a call until its end, in two deltas"],
)
async def test_json_that_was_asked_for_is_the_answer(
    server: ModelServer, node: AgentNode, answer: str
) -> None:
    server.answer(Say(answer[:8]), Say(answer[8:]), Done())
    session_id = await node.session()

    await node.ask(session_id, "as JSON")

    [reply] = await node.events(session_id, ModelReplied)
    assert (reply.content, reply.tool_calls, reply.recognised) == (answer, (), UNSET)
    shown = await node.events(session_id, TextDelta)
    assert "".join(delta.text for delta in shown) == answer


async def test_a_call_that_was_cut_off_while_it_was_written_was_never_shown(
    server: ModelServer, node: AgentNode
) -> None:
    sent = asyncio.Event()
    server.answer(Say(WRITTEN[:30]), Stall(sent))
    session_id = await node.session()
    receipt = await node.say(session_id, "what is there?")
    await server.chat(1)

    await node.sessions.stop(session_id, by="tester")
    await node.outcome(session_id, receipt)

    assert await node.events(session_id, TextDelta) == []
    assert await node.events(session_id, ToolFinished) == []


async def test_arguments_are_mended_before_they_are_logged_and_run(
    server: ModelServer, node: AgentNode
) -> None:
    server.answer(calls(("filesystem", {"arguments": {"action": "LIST", "lines": "3"}})), Done())
    server.answer(Say("Nothing there."), Done())
    session_id = await node.session()

    await node.ask(session_id, "what is there?")

    [call] = (await node.events(session_id, ModelReplied))[0].tool_calls
    assert (call.arguments, call.mended) == ({"action": "list", "lines": 3}, True)
    [ran] = await node.events(session_id, ToolFinished)
    assert ran.outcome == "ok"


def calls_with(escape: str) -> tuple[Say | Calls, ...]:
    """Calls whose path ends in an escape: written as text, no strict JSON, JSON within JSON."""
    arguments = f'{{"action": "list", "path": "a{escape}"}}'
    return (
        Say(f'{{"name": "filesystem", "arguments": {arguments}}}'),
        calls(("filesystem", arguments.replace('"', "'"))),
        calls(("filesystem", {"arguments": arguments})),
    )


@pytest.mark.parametrize("said", [*calls_with("\\ud83d"), *calls_with("\\u0000")])
async def test_nul_and_lone_surrogates_stay_out_of_the_log_where_a_model_escapes_them(
    server: ModelServer, node: AgentNode, said: Say | Calls
) -> None:
    server.answer(said, Done())
    server.answer(Say("It is not there."), Done())
    session_id = await node.session()

    await node.ask(session_id, "look")

    first, second = await node.events(session_id, ModelReplied)
    assert [call.arguments for call in first.tool_calls] == [{"action": "list", "path": "a\ufffd"}]
    assert second.content == "It is not there."


async def test_the_model_is_told_all_that_is_wrong_at_once(
    server: ModelServer, node: AgentNode
) -> None:
    wrong = {"path": 3.5, "lines": "many", "mode": "w"}
    server.answer(calls(("filesystem", wrong)), Done())
    server.answer(Say("Sorry."), Done())
    session_id = await node.session()

    await node.ask(session_id, "look")

    [ran] = await node.events(session_id, ToolFinished)
    assert ran.outcome == "error"
    for word in ("mode", "action", "path", "lines"):
        assert f"argument {word}" in ran.output
