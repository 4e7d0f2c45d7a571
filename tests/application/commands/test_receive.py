"""A message is received on what a node saw last of its session, and never on what is over."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.errors import BadInput, LogUnavailable, NotFound
from navi.ports.event_log import Append, Recorded
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as server:
        yield server


async def test_what_another_node_did_since_counts(server: ModelServer, tmp_path: Path) -> None:
    world = World()
    async with (
        agent_node(world, tmp_path, [server.url]) as first,
        agent_node(world, tmp_path, [server.url]) as second,
    ):
        session_id = await first.session()
        async with second.uploads.receive(session_id) as incoming:
            await incoming.begin("a.txt", media_type=None)
            await incoming.write(b"text")
            await incoming.end()
            await incoming.keep()
        with pytest.raises(BadInput, match="no upload"):
            await first.say(session_id, "look", files=("b.txt",))
        server.answer(Say("seen"), Done())
        receipt = await first.say(session_id, "look", files=("a.txt",), message_id="m1")
        await first.outcome(session_id, receipt)

        again = await second.say(session_id, "look", files=("a.txt",), message_id="m1")
        assert (again.seq, again.repeated) == (receipt.seq, True)

        await second.sessions.delete(session_id)
        with pytest.raises(NotFound):
            await first.say(session_id, "look", files=("a.txt",), message_id="m1")
        with pytest.raises(NotFound):
            await first.say(session_id, "still there?")


class UnansweredLog(InMemoryEventLog):
    """Keeps an append and does not say so, where that is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.silent = False

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        rows = await super().append(batch)
        if self.silent:
            self.silent = False
            raise LogUnavailable("no answer came")
        return rows


async def test_a_turn_that_was_opened_without_an_answer_is_run(
    server: ModelServer, tmp_path: Path
) -> None:
    log = UnansweredLog()
    world = World(log)
    server.answer(Say("here"), Done())
    async with agent_node(world, tmp_path, [server.url]) as node:
        session_id = await node.session()
        log.silent = True
        with pytest.raises(LogUnavailable):
            await node.say(session_id, "hello", message_id="m1")

        await world.seen(session_id, "turn_completed")


async def test_what_a_node_left_behind_is_opened_by_one_that_saw_nothing_of_it(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    server.answer(Say("here"), Done())
    async with agent_node(world, tmp_path, [server.url]) as stays:
        session_id = await stays.session()
        async with agent_node(world, tmp_path, [server.url]) as goes:
            goes.runs.draining = True
            await goes.say(session_id, "hello")
        await world.project()
        await stays.take_over.poll()

        await world.seen(session_id, "turn_completed")
