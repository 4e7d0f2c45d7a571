"""A message is received on what a node saw last of its session, and never on what is over."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from navi.domain.vocabulary.errors import BadInput, NotFound
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
            await first.say(session_id, "still there?")
