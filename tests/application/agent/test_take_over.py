"""One session's trouble is not another's: unfinished sessions are taken over one by one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
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
