"""A node that is told of another's commits need not wait for its next look at Postgres."""

import asyncio
from collections.abc import Callable

import pytest

from navi.adapters.postgres.log import tail
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.domain.vocabulary.ids import SessionId
from navi.ports.wake_ups import WakeUps
from tests.contracts.event_log import batch, created, new_id


class Wire(WakeUps):
    """What is announced is heard at once, by everybody."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[int, int], None]] = []

    async def announce(self, partition: int, position: int) -> None:
        for callback in self.callbacks:
            callback(partition, position)

    def subscribe(self, callback: Callable[[int, int], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)


async def test_an_announcement_wakes_who_waits_on_another_node(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "FIRST_PAUSE", 60.0)
    wire = Wire()

    async with (
        PostgresEventLog.open(database, wake_ups=wire, allow_unsafe_durability=True) as log,
        PostgresEventLog.open(database, wake_ups=wire, allow_unsafe_durability=True) as other,
        asyncio.TaskGroup() as tasks,
    ):
        waiting = tasks.create_task(other.wait_beyond(0, 0, timeout=60))
        await log.append(batch(SessionId(new_id()), 0, created()))

    assert waiting.result()
    assert wire.callbacks == []
