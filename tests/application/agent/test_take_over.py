"""Sessions that nobody works on are found: one's trouble is not another's, nor is their number."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.application.agent import take_over
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from navi.ports.read_models import StoredState
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall


class DamagedLog(InMemoryEventLog):
    """A log in which one session cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: SessionId | None = None

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        if session_id == self.damaged:
            raise LogDamaged(f"session {session_id}: an event is missing")
        reading = super().read(session_id, after=after, until=until, types=types)
        async with aclosing(reading) as batches:
            async for batch in batches:
                yield batch


class CountedReadModels(InMemoryReadModels):
    """Read models that note the sessions that a look for unfinished ones is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[list[SessionId]] = []

    async def unfinished(
        self, projection: str, version: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().unfinished(projection, version)
        self.given.append([session_id for session_id, _ in found])
        return found

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().owing(projection, version, after=after, limit=limit)
        self.given[-1] += [session_id for session_id, _ in found]
        return found


async def test_a_session_that_cannot_be_read_keeps_no_other_from_being_taken_over(
    tmp_path: Path,
) -> None:
    log = DamagedLog()
    world = World(log)
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as dies:
            damaged, other = sorted([await dies.session(), await dies.session()])
            for session_id in (damaged, other):
                models.answer(Say("Once upon"), Stall(asyncio.Event()))
                await dies.say(session_id, "tell")
                await world.seen(session_id, "text_delta")
        await world.project()
        models.answer(Say("a time"), Done())
        models.answer(Say("a time"), Done())
        async with agent_node(world, tmp_path, [models.url]) as lives:
            log.damaged = damaged
            await lives.take_over.poll()
            await world.seen(other, "turn_completed")

            log.damaged = None
            await lives.take_over.poll()
            await world.seen(damaged, "turn_completed")


async def test_of_many_sessions_that_wait_for_what_follows_a_turn_a_few_are_looked_at_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_over, "OWING_AT_ONCE", 2)
    world = World(read_models=(read_models := CountedReadModels()))
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as dies:
        sessions: list[SessionId] = []
        for _ in range(5):
            models.answer(Say("hello"), Done())
            sessions.append(await dies.session())
            await dies.ask(sessions[-1], "hi")
    await world.project()
    async with agent_node(world, tmp_path, []) as lives:
        read_models.given.clear()
        for _ in range(4):
            await lives.take_over.poll()

    first, second, third, fourth, fifth = sorted(sessions)
    assert read_models.given == [[first, second], [third, fourth], [fifth], [first, second]]
