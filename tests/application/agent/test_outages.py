"""What a turn, and who asks for its session, do while Postgres is away."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.application.agent import recall, session_runs
from navi.application.commands.manage_sessions import Change
from navi.domain.memory.memory import Memory
from navi.domain.vocabulary.errors import ConcurrentAppend, LogUnavailable
from navi.domain.vocabulary.events import ModelReplied
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Types
from tests.support.agent_node import World, agent_node
from tests.support.app import SwitchedLog
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall


class MemoriesAwayAtFirst(InMemoryMemories):
    """Cannot be searched the first time."""

    def __init__(self) -> None:
        super().__init__(NoEmbedders())
        self.away = 1

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        if self.away:
            self.away -= 1
            raise LogUnavailable("Postgres does not answer")
        return await super().search(owner, query, limit=limit)


class TextsAwayAtFirst(InMemoryTextStore):
    """Keeps nothing the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.away = 1

    async def put(self, *texts: str) -> tuple[str, ...]:
        if self.away:
            self.away -= 1
            raise LogUnavailable("Postgres does not answer")
        return await super().put(*texts)


async def test_a_turn_waits_for_what_it_has_to_read_and_to_keep(tmp_path: Path) -> None:
    world = World()
    world.memories, world.texts = MemoriesAwayAtFirst(), TextsAwayAtFirst()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        models.answer(Say("hello"), Done())

        outcome = await node.ask(await node.session(), "hi")

    assert (outcome.outcome, outcome.content) == ("completed", "hello")
    assert (world.memories.away, world.texts.away) == (0, 0)


class SlowMemories(InMemoryMemories):
    """Too many to be searched: where Postgres gives that up in time, or where it does not.

    Attributes:
        asked: set when a search began.
    """

    def __init__(self, *, given_up: bool) -> None:
        super().__init__(NoEmbedders())
        self.asked = asyncio.Event()
        self._given_up = given_up

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        self.asked.set()
        if self._given_up:
            raise LogUnavailable("Postgres: no answer (TimeoutError)")
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("given_up", [True, False])
async def test_a_turn_goes_on_without_memories_that_cannot_be_searched_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    monkeypatch.setattr(recall, "RECALL_SECONDS", 0.05)
    world = World(memories=SlowMemories(given_up=given_up))
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        models.answer(Say("hello"), Done())

        outcome = await node.ask(await node.session(), "hi")

    assert (outcome.outcome, outcome.content) == ("completed", "hello")


async def test_a_turn_that_is_stopped_while_it_searches_memories_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "RECALL_SECONDS", 300.0)
    memories = SlowMemories(given_up=False)
    world = World(memories=memories)
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        session_id = await node.session()
        receipt = await node.say(session_id, "hi")
        await memories.asked.wait()

        await node.sessions.stop(session_id, by="user")

        outcome = await node.outcome(session_id, receipt)
        assert (outcome.outcome, models.chats) == ("stopped", [])


async def test_nobody_waits_behind_a_turn_that_waits_for_postgres(tmp_path: Path) -> None:
    log = SwitchedLog()
    world = World(log)
    go_on = asyncio.Event()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        models.answer(Say("a"), Stall(go_on), Say("b"), Done())
        session_id = await node.session()
        receipt = await node.say(session_id, "hi")
        await world.seen(session_id, "text_delta")
        log.reachable = False
        go_on.set()
        await models.chats[0].end()  # the reply is there and cannot be recorded

        for _ in range(20):
            async with asyncio.timeout(30):
                with pytest.raises(LogUnavailable):
                    await node.sessions.find(session_id)
                with pytest.raises(LogUnavailable):
                    await node.sessions.stop(session_id, by="user")
            await asyncio.sleep(0.02)
        log.reachable = True

        outcome = await node.outcome(session_id, receipt)

    assert (outcome.outcome, outcome.content) == ("completed", "ab")


class WatchedInVainAtFirst(SwitchedLog):
    """A log that cannot be watched the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.away = 1

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        if self.away:
            self.away -= 1
            raise LogUnavailable("Postgres does not answer")
        async with aclosing(super().watch(session_id, after=after)) as batches:
            async for batch in batches:
                yield batch


async def test_a_turn_that_began_in_an_outage_is_stopped_on_any_node_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_runs, "UNAVAILABLE_PAUSE", 0.01)
    world = World(WatchedInVainAtFirst())
    silent = Stall(asyncio.Event())
    async with (
        ModelServer() as models,
        agent_node(world, tmp_path, [models.url], first_chunk_timeout=300) as runs,
        agent_node(world, tmp_path, [models.url]) as other,
    ):
        models.answer(silent)
        session_id = await runs.session()
        receipt = await runs.say(session_id, "hi")
        await models.chat()

        await other.sessions.stop(session_id, by="user")

        async with asyncio.timeout(10):
            outcome = await other.outcome(session_id, receipt)
    assert outcome.outcome == "stopped"


class OvertakenLog(SwitchedLog):
    """A reply comes second: somebody else appends first, and then the log cannot be read at once.

    Attributes:
        overtake: what happens before the next reply is stored.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overtake: Callable[[], Awaitable[object]] | None = None
        self.unread = 0

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        overtake = self.overtake
        if overtake is None or not any(isinstance(e.event, ModelReplied) for e in batch.events):
            return await super().append(batch)
        self.overtake = None
        await overtake()
        try:
            return await super().append(batch)
        except ConcurrentAppend:
            self.unread += 1
            raise

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        if self.unread == 1:
            self.unread += 1
            raise LogUnavailable("Postgres does not answer")
        rows = super().read(session_id, after=after, until=until, types=types)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield batch


async def test_a_reply_that_another_process_overtook_outlasts_an_outage(tmp_path: Path) -> None:
    log = OvertakenLog()
    world = World(log)
    go_on = asyncio.Event()
    async with (
        ModelServer() as models,
        agent_node(world, tmp_path, [models.url]) as node,
        agent_node(world, tmp_path, [models.url]) as other,
    ):
        models.answer(Stall(go_on), Say("hello"), Done())
        session_id = await node.session()
        receipt = await node.say(session_id, "hi")
        await models.chat()

        log.overtake = lambda: other.sessions.change(session_id, Change(name="theirs"))
        go_on.set()
        outcome = await node.outcome(session_id, receipt)

        assert (outcome.outcome, outcome.content) == ("completed", "hello")
        assert (await node.sessions.find(session_id)).name == "theirs"
        assert log.unread == 2  # it could not be read, once


async def test_a_name_that_another_process_overtook_outlasts_an_outage(tmp_path: Path) -> None:
    log = OvertakenLog()
    world = World(log)
    go_on = asyncio.Event()
    async with (
        ModelServer() as models,
        agent_node(world, tmp_path, [models.url], follow=True) as node,
        agent_node(world, tmp_path, [models.url]) as other,
    ):
        models.scripted |= {"naming"}
        models.answer(Say("Rome is lovely"), Done())
        models.answer(Stall(go_on), Say("A trip to Rome"), Done())
        session_id = await node.session()
        await node.ask(session_id, "tell me about Rome")
        await models.chat(2)

        log.overtake = lambda: other.sessions.change(session_id, Change(pinned=True))
        go_on.set()
        async with asyncio.timeout(10):
            await world.seen(session_id, "session_renamed")

        session = await node.sessions.find(session_id)
        assert (session.name, session.pinned, session.asides) == ("A trip to Rome", True, ())
        assert log.unread == 2  # it could not be read, once
