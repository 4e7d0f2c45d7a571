import asyncio
from collections.abc import Generator, Sequence

import pytest

from navi import failpoints
from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.application.followers.relay import Degraded, Following, StandingBy, republish
from navi.domain.vocabulary.errors import BadInput, BusSilent, StreamMoved
from navi.ports.event_log import Recorded
from tests.application.followers.relaying import caught_up, running
from tests.support.growing_log import GrowingLog
from tests.support.until import until


@pytest.fixture
def disarmed() -> Generator[None, None, None]:
    yield
    failpoints.arm(())


def unheard(position: int, target: int) -> None:
    pass


def upto(last: int, *, first: int = 1) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


async def test_everything_is_published_once_and_in_order() -> None:
    log, stream = GrowingLog(5000), InMemoryEventStream()

    async with running(log, stream) as relay:
        await caught_up(relay, 5000)
        log.grow(7)
        await caught_up(relay, 5007)

    assert stream.positions(0) == upto(5007)


async def test_it_goes_on_where_the_stream_ends() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    async with running(log, stream) as relay:
        await caught_up(relay, 10)
    log.grow(5)

    async with running(log, stream) as relay:
        await caught_up(relay, 15)

    assert stream.positions(0) == upto(15)


async def test_a_deleted_stream_is_filled_from_the_beginning() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()

    async with running(log, stream) as relay:
        await caught_up(relay, 10)
        stream.delete(0)
        await until(lambda: stream.positions(0) == upto(10))


async def test_a_stream_that_went_back_is_filled_again() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()

    async with running(log, stream) as relay:
        await caught_up(relay, 10)
        stream.roll_back(0, position=4)
        await until(lambda: stream.positions(0) == upto(10))


async def test_a_stream_that_starts_later_is_left_as_it_is() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    await stream.recreate(0, first_position=8)

    async with running(log, stream) as relay:
        await caught_up(relay, 10)

    assert stream.positions(0) == upto(10, first=8)


async def test_without_nats_it_waits_and_then_publishes_all() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    stream.reachable = False

    async with running(log, stream) as relay:
        await until(lambda: isinstance(relay.state, Degraded))
        assert relay.state == Degraded(reason="NATS is not reachable: switched off")
        log.grow(5)
        stream.reachable = True
        await caught_up(relay, 15)

    assert stream.positions(0) == upto(15)


async def test_a_stream_that_takes_nothing_while_nats_answers_is_stalled() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    stream.stores = False

    async with running(log, stream) as relay:
        await until(lambda: isinstance(relay.state, Degraded) and relay.state.stalled)
        stream.reachable = False
        await until(lambda: isinstance(relay.state, Degraded) and not relay.state.stalled)
        stream.reachable = stream.stores = True
        await caught_up(relay, 10)

    assert stream.positions(0) == upto(10)


async def test_a_stream_ahead_of_the_log_is_refused_until_the_log_is_back() -> None:
    stream = InMemoryEventStream()
    async with running(GrowingLog(10), stream) as relay:
        await caught_up(relay, 10)
    log = GrowingLog(6)

    async with running(log, stream) as relay:
        await until(lambda: isinstance(relay.state, Degraded))
        assert relay.state == Degraded(
            reason="stream NAVI_0 is ahead of the log: it ends at 0-10, the log at 0-6; the log "
            "comes from a backup or is another one; `navi publish --from 0-1` makes the stream anew"
        )
        log.grow(5)
        await caught_up(relay, 11)

    assert stream.positions(0) == upto(11)


async def test_a_log_that_goes_back_under_the_relay_is_noticed() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()

    async with running(log, stream) as relay:
        await caught_up(relay, 10)
        del log.rows[6:]
        await until(lambda: isinstance(relay.state, Degraded))

    assert stream.positions(0) == upto(10)


async def test_another_history_is_refused_although_it_is_longer() -> None:
    stream = InMemoryEventStream()
    async with running(GrowingLog(10), stream) as relay:
        await caught_up(relay, 10)

    async with running(GrowingLog(20, history=1), stream) as relay:
        await until(lambda: isinstance(relay.state, Degraded))
        assert relay.state == Degraded(
            reason="stream NAVI_0 and the log have different events at 0-10: one of them comes from "
            "a backup; `navi publish --from 0-1` makes the stream anew"
        )

    assert stream.positions(0) == upto(10)


async def test_the_second_relay_stands_by_and_takes_over() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()

    async with running(log, stream) as second:
        async with running(log, stream) as first:
            await until(lambda: len(stream.positions(0)) == 10)
            while not any(isinstance(relay.state, StandingBy) for relay in (first, second)):
                log.grow(1)
                await asyncio.sleep(0.005)
            size = len(log.rows)
            await until(lambda: len(stream.positions(0)) == size)
        log.grow(10)
        await caught_up(second, size + 10)

    assert stream.positions(0) == upto(size + 10)


@pytest.mark.usefixtures("disarmed")
@pytest.mark.parametrize("place", ["relay.before_publish", "relay.after_publish"])
async def test_a_failure_around_publishing_is_tried_again(place: str) -> None:
    log, stream = GrowingLog(100), InMemoryEventStream()
    failpoints.arm(failpoints.parse(f"{place}@1=raise,{place}@3=raise"))

    async with running(log, stream) as relay:
        await caught_up(relay, 100)

    assert stream.positions(0) == upto(100)


class SmallSteps(InMemoryEventStream):
    """Notes how much is published at once."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    async def publish(self, partition: int, rows: Sequence[Recorded]) -> None:
        self.steps.append(len(rows))
        await super().publish(partition, rows)


async def test_it_begins_with_one_event_and_keeps_pages_of_large_ones_small() -> None:
    log, stream = GrowingLog(), SmallSteps()
    log.grow(341)
    log.grow(1000, text="x" * 20_000)

    async with running(log, stream) as relay:
        await caught_up(relay, 1341)

    assert stream.steps[:6] == [1, 4, 16, 64, 256, 500]
    assert stream.steps[6:] == [103] * 4 + [88]


async def test_publishing_anew_starts_at_the_position_asked_for() -> None:
    log, stream = GrowingLog(3000), InMemoryEventStream()
    async with running(log, stream) as relay:
        await caught_up(relay, 3000)
    steps: list[tuple[int, int]] = []

    end = await republish(
        log,
        stream,
        partition=0,
        from_position=17,
        progress=lambda position, target: steps.append((position, target)),
    )

    assert end == 3000
    assert stream.positions(0) == upto(3000, first=17)
    assert (steps[0], steps[-1]) == ((17, 3000), (3000, 3000))


async def test_publishing_anew_while_the_service_runs_gives_one_stream() -> None:
    log, stream = GrowingLog(3000), InMemoryEventStream()

    async with running(log, stream) as relay:
        await caught_up(relay, 3000)
        await republish(log, stream, partition=0, from_position=17, progress=unheard)
        log.grow(5)
        await until(lambda: stream.positions(0) == upto(3005, first=17))
        await until(lambda: isinstance(relay.state, Following | StandingBy))


class Broken(InMemoryEventStream):
    """A store that a full disk broke: it says that it moved, and stays."""

    async def publish(self, partition: int, rows: Sequence[Recorded]) -> None:
        raise StreamMoved("the stream does not end before 0-1")


async def test_publishing_anew_ends_where_the_stream_takes_nothing() -> None:
    with pytest.raises(BusSilent, match="NATS takes no events: the stream does not end before 0-1"):
        async with asyncio.timeout(5):
            await republish(
                GrowingLog(10), Broken(), partition=0, from_position=1, progress=unheard
            )


@pytest.mark.parametrize(("partition", "position"), [(1, 1), (0, 0), (0, 12)])
async def test_only_positions_of_the_log_can_be_published_from(
    partition: int, position: int
) -> None:
    with pytest.raises(BadInput):
        await republish(
            GrowingLog(10),
            InMemoryEventStream(),
            partition=partition,
            from_position=position,
            progress=unheard,
        )
