"""What `navi erase` says of the copies on NATS."""

import asyncio
from collections.abc import Sequence

from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.cli.upkeep.erase import nats_follows
from navi.ports.event_log import Recorded
from tests.application.followers.relaying import caught_up, running
from tests.support.growing_log import GrowingLog


class SlowStream(InMemoryEventStream):
    """Takes events one by one, each after some seconds; None for never."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__()
        self._seconds = seconds
        self._taking = asyncio.Lock()

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        async with self._taking:
            for row in rows:
                if self._seconds is None:
                    await asyncio.Event().wait()
                else:
                    await asyncio.sleep(self._seconds)
                await super().publish(partition, (row,))


async def published(log: GrowingLog) -> InMemoryEventStream:
    """A stream that has all of a log."""
    stream = InMemoryEventStream()
    async with running(log, stream) as relay:
        await caught_up(relay, len(log.rows))
    return stream


async def test_the_copies_are_erased_once_the_stream_has_all_of_the_log() -> None:
    log = GrowingLog(10)
    stream = await published(log)
    log.grow(5)

    assert await nats_follows(log, stream, seconds=10) is None

    assert stream.positions(0) == tuple(range(1, 16))


async def test_the_copies_stand_where_the_stream_is_ahead_of_the_log() -> None:
    stream = await published(GrowingLog(10))

    told = await nats_follows(GrowingLog(6), stream, seconds=10)

    assert told == (
        "The copies on NATS are not erased: stream NAVI_0 is ahead of the log: it ends at 0-10, the log "
        "at 0-6; the log comes from a backup or is another one; `navi publish --from 0-1` makes the "
        "stream anew"
    )


async def test_the_copies_stand_where_the_stream_is_of_another_log() -> None:
    stream = await published(GrowingLog(10))

    told = await nats_follows(GrowingLog(10, history=1), stream, seconds=10)

    assert told is not None
    assert "different events at 0-10" in told


async def test_the_copies_wait_for_nats() -> None:
    stream = InMemoryEventStream()
    stream.reachable = False

    told = await nats_follows(GrowingLog(6), stream, seconds=0.2)

    assert told == "NATS does not answer: its copies are erased when it does."


async def test_nats_is_waited_for_as_long_as_it_gets_on() -> None:
    stream = SlowStream(0.1)

    assert await nats_follows(GrowingLog(15), stream, seconds=1) is None

    assert stream.positions(0) == tuple(range(1, 16))


async def test_nats_that_answers_and_gets_no_further_is_not_called_silent() -> None:
    told = await nats_follows(GrowingLog(6), SlowStream(None), seconds=0.2)

    assert told == (
        "The copies on NATS are not all erased yet: a running navi goes on with them, or the next one."
    )
