"""Subagents side by side have one todo list: no change of it is lost."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.tools.todo import TodoTool
from navi.application.commands.manage_sessions import Change
from navi.domain.vocabulary.events import JsonObject, SessionPinned
from navi.ports.event_log import Append, Recorded
from navi.ports.tools import ToolContext, ToolDescription, ToolResult
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls


class SlowPin(InMemoryEventLog):
    """A session that is pinned takes its time, in which nothing else is appended to it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if isinstance(batch.events[0].event, SessionPinned):
            self.asked.set()
            await self.go_on.wait()
        return await super().append(batch)


class TwoAtOnce:
    """The tool ``todo``, of which two calls change the list before either change can be stored."""

    def __init__(self, log: SlowPin) -> None:
        self._log = log
        self._todo = TodoTool()
        self._calls = self._begun = 0
        self.both = asyncio.Event()

    @property
    def description(self) -> ToolDescription:
        return replace(self._todo.description, name="plan", source="test")

    def check(self, arguments: JsonObject) -> str | None:
        return self._todo.check(arguments)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        self._calls += 1
        if self._calls == 2:
            self.both.set()
        await self._log.asked.wait()
        running = asyncio.ensure_future(self._todo.run(arguments, context))
        await asyncio.sleep(0)  # it has done what it can while nothing is appended
        self._begun += 1
        if self._begun == 2:
            self._log.go_on.set()
        return await running


async def test_two_that_are_added_at_once_are_both_there(tmp_path: Path) -> None:
    log = SlowPin()
    tool = TwoAtOnce(log)
    add = ("plan", {"action": "add", "text": "look"})
    spawns = [("spawn_agent", {"task": f"part {part}"}) for part in (1, 2)]
    async with (
        ModelServer() as models,
        agent_node(World(log), tmp_path, [models.url], tools=[tool]) as node,
    ):
        for answer in (calls(*spawns), calls(add), calls(add), Say("part"), Say("part")):
            models.answer(answer, Done())
        models.answer(Say("whole"), Done())
        session_id = await node.session()
        receipt = await node.say(session_id, "go")
        await tool.both.wait()

        await node.sessions.change(session_id, Change(pinned=True))

        assert (await node.outcome(session_id, receipt)).content == "whole"

        todo = await (await node.records.open(session_id)).todo()
    assert [(item.id, item.text) for item in todo.state.items] == [("1", "look"), ("2", "look")]
