"""A subagent has its time, counted from its start: then it is ended and all it left open is answered."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from navi.adapters.system import SystemClock
from navi.application.agent.agent_actions import WITHOUT_MODEL, not_done_after, seconds_it_had
from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import SessionId
from navi.ports.tools import ToolContext, ToolDescription, ToolResult
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall, calls
from tests.support.promises import Event, broken_promises, facts

SPAWN = calls(("spawn_agent", {"task": "find it"}))


class DeafTool:
    """A tool that does not end when it is told to."""

    description = ToolDescription(
        name="deaf", description="", parameters={}, safe_to_repeat=False, source="test"
    )

    def check(self, arguments: JsonObject) -> str | None:
        return None

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError


class Later(SystemClock):
    """A clock that is ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=3_601)


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


async def envelopes(node: AgentNode, session_id: SessionId) -> list[Event]:
    return [msgspec.json.decode(row.wire) for row in await node.world.events(session_id)]


async def test_a_subagent_is_ended_when_its_time_is_over(
    server: ModelServer, tmp_path: Path
) -> None:
    async with agent_node(World(), tmp_path, [server.url], subagent_seconds=1.0) as node:
        server.answer(SPAWN, Done())
        server.answer(Say("half an ans"), Stall(asyncio.Event()))
        server.answer(Say("it took too long"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "have it found")).content == "it took too long"

        events = await envelopes(node, session_id)
        [finished] = [e["data"] for e in events if e["type"] == "subagent_finished"]
        assert not finished["completed_normally"]
        assert finished["result"] == "It was not done after 1 s."
        [failed] = [e["data"] for e in events if e["type"] == "model_call_failed"]
        assert (failed["kind"], failed["partial_text"]) == ("stopped", "half an ans")
        assert "It was not done after 1 s." in server.chats[2].json["messages"][-1]["content"]
        assert broken_promises(events) == []


@pytest.mark.parametrize("seconds", [0.25, 1.0, 3_600.0, 2_000_000.0])
def test_the_time_that_a_subagent_had_is_read_from_what_it_came_to(seconds: float) -> None:
    assert seconds_it_had(not_done_after(seconds)) == seconds


@pytest.mark.parametrize(
    "result",
    [
        "",
        "done",
        f"{WITHOUT_MODEL}none",
        "It was not done after 1 s. Or was it?",
        "Well. It was not done after 1 s.",
    ],
)
def test_a_subagent_that_ended_otherwise_tells_no_time(result: str) -> None:
    assert seconds_it_had(result) is None


async def test_what_it_has_spawned_and_begun_ends_with_it(
    server: ModelServer, tmp_path: Path
) -> None:
    deaf = DeafTool()
    async with agent_node(
        World(), tmp_path, [server.url], tools=[deaf], subagent_seconds=1.0
    ) as node:
        server.answer(SPAWN, Done())
        server.answer(calls(("spawn_agent", {"task": "deeper"}), ("todo", {})), Done())
        server.answer(calls(("deaf", {})), Done())
        server.answer(Say("done"), Done())
        session_id = await node.session()

        assert (await node.ask(session_id, "have it found")).content == "done"

        events = await envelopes(node, session_id)
        ended = [
            (event["type"], event["data"].get("outcome"))
            for event in events
            if event["type"] in ("tool_finished", "subagent_finished")
        ]
        assert ended == [
            ("tool_finished", "unknown"),  # the tool of the deeper one
            ("subagent_finished", None),
            ("tool_finished", "unknown"),  # what the outer one has spawned,
            ("tool_finished", "skipped"),  # and what it had not begun
            ("subagent_finished", None),
            ("tool_finished", "ok"),
        ]
        assert broken_promises(events) == []


async def test_its_time_goes_on_while_no_process_runs_it(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.answer(SPAWN, Done())
    server.answer(Stall(asyncio.Event()))
    async with agent_node(world, tmp_path, [server.url]) as first:
        session_id = await first.session()
        receipt = await first.say(session_id, "go")
        await server.chat(2)
    server.answer(Say("it took too long"), Done())

    async with agent_node(world, tmp_path, [server.url], clock=Later()) as second:
        await world.project()
        await second.take_over.poll()

        assert (await second.outcome(session_id, receipt)).content == "it took too long"
        events = await envelopes(second, session_id)
        after = facts(events)[facts(events).index("turn_resumed") :]
        assert after == [
            "turn_resumed",
            "model_call_failed",
            "subagent_finished",
            "tool_finished",
            "model_called",
            "model_replied",
            "turn_completed",
        ]
        assert broken_promises(events) == []
