"""Tools whose server is being started, as after a restart of navi: their calls wait for it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from navi.adapters.tools.mcp.servers import McpServers
from navi.domain.session.commands import DecideApproval
from navi.domain.session.session import undecided_calls
from navi.domain.vocabulary.events import JsonObject, ToolFinished, TurnStopped
from navi.domain.vocabulary.ids import CallId, SessionId
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.allowed_tools import SharedLog
from tests.support.mcp_servers import DELAYS, ENVIRONMENT, PROGRAM, SECONDS, write
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls

ECHO = ("small__echo", {"text": "hi"})
SLOW = {"name": "slow", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


class Program:
    """An MCP server that lists its tools once it may."""

    def __init__(self, directory: Path, tools: Sequence[Any] = ()) -> None:
        self._may = directory / "may start"
        self._file = directory / "mcp.json"
        self._args = [sys.executable, str(PROGRAM)]
        if tools:
            (directory / "tools.json").write_text(json.dumps(tools))
            self._args.append(str(directory / "tools.json"))

    def may_start(self) -> None:
        self._may.touch()

    @asynccontextmanager
    async def servers(self, *, trust: bool) -> AsyncGenerator[McpServers]:
        """It as one process of navi has it, which does not wait until it is up."""
        waits = f"until [ -e '{self._may}' ]; do sleep 0.02; done"
        entry = {"command": "/bin/sh", "args": ["-c", f'{waits}; exec "$0" "$@"', *self._args]}
        write(self._file, small={**entry, "trust": trust})
        try:
            async with McpServers(
                self._file, allowed=SharedLog().node(), environment=ENVIRONMENT, delays=DELAYS
            ) as servers:
                yield servers
        finally:
            self._may.unlink(missing_ok=True)


@pytest.fixture
async def models() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


async def waiting_turn(
    models: ModelServer, world: World, directory: Path, program: Program
) -> tuple[SessionId, CallId]:
    """A turn that waits for a person, by a process that has gone."""
    models.answer(calls(ECHO), Done())
    models.answer(Say("done"), Done())
    async with (
        program.servers(trust=False) as servers,
        agent_node(world, directory, [models.url], sources=[servers]) as asks,
    ):
        program.may_start()
        await servers.settled(seconds=SECONDS)
        session_id = await asks.session()
        await asks.say(session_id, "say it")
        await world.seen(session_id, "approval_requested")
        await asks.runs.ended(session_id)
        [run] = undecided_calls(await asks.sessions.find(session_id))
        return session_id, run.call.id


async def results(node: AgentNode, session_id: SessionId) -> list[tuple[str, str]]:
    rows = await node.world.events(session_id)
    events = [row.envelope.event for row in rows]
    return [(one.outcome, one.output) for one in events if isinstance(one, ToolFinished)]


@pytest.mark.parametrize("edited", [None, {"text": "ho"}])
async def test_a_call_that_is_allowed_while_its_server_starts_is_run_once_that_is_up(
    models: ModelServer, tmp_path: Path, edited: JsonObject | None
) -> None:
    world, program = World(), Program(tmp_path)
    session_id, call_id = await waiting_turn(models, world, tmp_path, program)
    allow = DecideApproval(call_id=call_id, decision="allow", by="local", arguments=edited)

    async def may_start() -> None:
        program.may_start()

    async with (
        program.servers(trust=False) as servers,
        agent_node(world, tmp_path, [models.url], sources=[servers]) as decides,
    ):
        await asyncio.gather(decides.decide_approval(session_id, allow), may_start())
        await world.seen(session_id, "turn_completed")

        [(outcome, output)] = await results(decides, session_id)
        assert (outcome, output.splitlines()[-1]) == ("ok", "hi" if edited is None else "ho")


async def test_a_stop_ends_a_call_that_waits_for_its_server_to_start(
    models: ModelServer, tmp_path: Path
) -> None:
    world, program = World(), Program(tmp_path)
    session_id, call_id = await waiting_turn(models, world, tmp_path, program)
    allow = DecideApproval(call_id=call_id, decision="allow", by="local")
    async with (
        program.servers(trust=False) as servers,
        agent_node(world, tmp_path, [models.url], sources=[servers]) as decides,
    ):
        await decides.decide_approval(session_id, allow)
        await world.seen(session_id, "turn_resumed")

        await decides.sessions.stop(session_id, by="user")

        stopped = await world.seen(session_id, "turn_stopped")
        assert isinstance(stopped.envelope.event, TurnStopped)
        assert [outcome for outcome, _ in await results(decides, session_id)] == ["skipped"]


async def test_a_turn_is_taken_over_once_it_is_known_whether_its_call_can_be_repeated(
    models: ModelServer, tmp_path: Path
) -> None:
    world, program, said = World(), Program(tmp_path, [SLOW]), tmp_path / "said"
    models.answer(calls(("small__slow", {"file": str(said)})), Done())
    async with (
        program.servers(trust=True) as servers,
        agent_node(world, tmp_path, [models.url], sources=[servers]) as dies,
    ):
        program.may_start()
        await servers.settled(seconds=SECONDS)
        session_id = await dies.session()
        await dies.say(session_id, "slowly")
        await world.seen(session_id, "tool_started")
    await world.project()
    async with (
        program.servers(trust=True) as servers,
        agent_node(world, tmp_path, [models.url], sources=[servers]) as lives,
    ):
        await lives.take_over.poll()
        assert "turn_resumed" not in await world.types(session_id)

        program.may_start()
        await servers.settled(seconds=SECONDS)
        await lives.take_over.poll()

        await world.seen(session_id, "turn_resumed")
        assert await results(lives, session_id) == []
