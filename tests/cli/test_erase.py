"""What `navi erase` says of the copies on NATS."""

from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.cli.upkeep.erase import nats_follows
from tests.application.followers.relaying import caught_up, running
from tests.support.growing_log import GrowingLog


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
