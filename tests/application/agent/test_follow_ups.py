"""What follows a turn while the next one runs already: nothing is passed over, and all of it runs again.

That each of these sessions runs again from its log is seen to for every test here, see ``conftest.py``.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.application.commands.manage_context import Compressed
from navi.application.commands.manage_sessions import Change
from navi.domain.session.commands import TakeInConversation
from navi.domain.vocabulary.ids import Owner
from navi.failpoints import arm, parse
from navi.ports.memories import Memory
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall

FACTS = "One fact a line"  # in what the model is asked for memories


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        running.scripted |= {"memory"}
        yield running


class Door:
    """Where one caller waits."""

    def __init__(self) -> None:
        self.closed = False
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        """Wait, where it is closed and nobody waits yet."""
        if self.closed and not self.reached.is_set():
            self.reached.set()
            await self._opened.wait()


class SlowMemories(InMemoryMemories):
    def __init__(self, door: Door) -> None:
        super().__init__(NoEmbedders())
        self._door = door

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        await self._door.passed()
        return await super().search(owner, query, limit=limit)


class SlowTexts(InMemoryTextStore):
    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    async def put(self, *texts: str) -> tuple[str, ...]:
        if any(FACTS in text for text in texts):
            await self._door.passed()
        return await super().put(*texts)


def asked_for_facts(server: ModelServer) -> list[str]:
    """The questions for memories that the model server got."""
    last = [chat.json["messages"][-1]["content"] for chat in server.chats]
    return [content for content in last if FACTS in content]


async def test_a_turn_that_ends_while_memories_are_looked_up_is_looked_through_as_well(
    server: ModelServer, tmp_path: Path
) -> None:
    door, go_on = Door(), asyncio.Event()
    world = World(memories=SlowMemories(door))
    server.answer(Stall(go_on), Say("I see."), Done())
    server.answer(Say("Noted."), Done())
    server.answer(Say("NONE"), Done())
    async with agent_node(world, tmp_path, [server.url], follow=True) as node:
        session_id = await node.session()
        first = await node.say(session_id, "I live in Oslo.")
        await server.chat()
        door.closed = True
        go_on.set()
        await node.outcome(session_id, first)
        await door.reached.wait()

        await node.ask(session_id, "I like tea.")
        door.open()
        await server.chat(3)

        [question] = asked_for_facts(server)
        assert "I live in Oslo." in question
        assert "I like tea." in question
        await world.seen(session_id, "model_replied", 4)  # one is the name's


async def test_a_question_that_a_whole_turn_overtook_is_of_the_turn_before(
    server: ModelServer, tmp_path: Path
) -> None:
    door, world = Door(), World()
    door.closed = True
    world.texts = SlowTexts(door)
    for said in ("I see.", "Noted.", "NONE", "NONE"):
        server.answer(Say(said), Done())
    async with agent_node(world, tmp_path, [server.url], follow=True) as node:
        session_id = await node.session()
        await node.ask(session_id, "I live in Oslo.")
        await door.reached.wait()

        await node.ask(session_id, "I like tea.")
        door.open()
        await server.chat(4)

        first, second = asked_for_facts(server)
        assert "I like tea." not in first
        assert "I like tea." in second
        await world.seen(session_id, "model_replied", 5)


async def test_new_instructions_may_come_while_the_model_is_asked_for_memories(
    server: ModelServer, tmp_path: Path
) -> None:
    world, go_on = World(), asyncio.Event()
    server.answer(Say("I see."), Done())
    server.answer(Stall(go_on), Say("NONE"), Done())
    async with agent_node(world, tmp_path, [server.url], follow=True) as node:
        session_id = await node.session()
        await node.ask(session_id, "I live in Oslo.")
        await server.chat(2)

        rude = TakeInConversation(messages=(), instructions="Be rude.")
        await node.sessions.take_in(session_id, rude)
        go_on.set()
        await world.seen(session_id, "model_replied", 3)

    taken, replied = (await world.types(session_id))[-2:]
    assert (taken, replied) == ("conversation_taken_in", "model_replied")


async def test_what_is_told_of_a_compression_is_its_own_event(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    long = "word " * 60
    async with agent_node(world, tmp_path, [server.url], keep_recent=1) as node:
        session_id = await node.session()
        for answer in ("One", "Two"):
            server.answer(Say(f"{answer} {long}"), Done())
            await node.ask(session_id, f"Go on. {long}")
        server.answer(Say("- a summary"), Done())
        arm(parse("compression.after_append=sleep:0.2"))
        try:
            compressing = asyncio.create_task(node.contexts.compress(session_id))
            compression = await world.seen(session_id, "context_compressed")
            await node.sessions.change(session_id, Change(name="meanwhile"))
            compressed = await compressing
        finally:
            arm(())

        assert (await world.types(session_id))[-1] == "session_renamed"
        assert compressed == Compressed(compressed=True, seq=compression.seq)


async def test_a_compression_may_be_undone_before_the_model_is_asked_for_memories(
    server: ModelServer, tmp_path: Path
) -> None:
    world, go_on = World(), asyncio.Event()
    long = "word " * 60
    server.answer(Say(f"One {long}"), Done())
    server.answer(Say("NONE"), Done())
    server.answer(Say(f"Two {long}"), Done())
    server.answer(Stall(go_on), Say("NONE"), Done())
    server.answer(Say("- a summary"), Done())
    server.answer(Say("Three"), Done())
    server.answer(Say("NONE"), Done())
    async with agent_node(world, tmp_path, [server.url], follow=True, keep_recent=1) as node:
        session_id = await node.session()
        await node.ask(session_id, f"I live in Oslo. {long}")
        await server.chat(2)
        await node.ask(session_id, f"I like tea. {long}")
        await server.chat(4)
        assert (await node.contexts.compress(session_id)).compressed
        compression = await world.seen(session_id, "context_compressed")

        await node.ask(session_id, "I have a cat.")
        await node.contexts.undo(session_id, compression.seq)
        go_on.set()
        await server.chat(7)

        await world.seen(session_id, "model_replied", 8)
