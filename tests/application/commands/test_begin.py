"""The session of an id that somebody else has made is begun once, however many ask for it at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Types
from tests.support.agent_node import World, agent_node

SESSION = SessionId("01990000-0000-7000-8000-000000000001")


class SuspendingLog(InMemoryEventLog):
    """Lets others go first at every question and every append, as a database does."""

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        await asyncio.sleep(0)
        return await super().append(batch)

    async def head(self, session_id: SessionId) -> int:
        await asyncio.sleep(0)
        return await super().head(session_id)

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        await asyncio.sleep(0)
        async with aclosing(
            super().read(session_id, after=after, until=until, types=types)
        ) as batches:
            async for batch in batches:
                yield batch


async def test_who_asks_at_the_same_time_gets_the_session_that_was_begun(tmp_path: Path) -> None:
    world = World(SuspendingLog())
    async with agent_node(world, tmp_path, []) as one, agent_node(world, tmp_path, []) as other:
        await asyncio.gather(
            *(
                node.sessions.begin(SESSION, profile_id="assistant", owner=LOCAL_OWNER)
                for node in (one, one, other)
            )
        )

        found = [await node.sessions.find(SESSION) for node in (one, other)]

    assert [session.created_at is not None for session in found] == [True, True]
    assert await world.types(SESSION) == ["session_created"]
