import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence

import pytest
from msgspec.structs import replace

from navi import failpoints
from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.application.followers.relay import Degraded, Following, StandingBy, republish
from navi.domain.vocabulary.errors import BadInput, BusSilent, StreamMoved
from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import ContentErased
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
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

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        self.steps.append(len(rows))
        await super().publish(partition, rows, behind=behind)


async def test_it_begins_with_one_event_and_keeps_pages_of_large_ones_small() -> None:
    log, stream = GrowingLog(), SmallSteps()
    log.grow(341)
    log.grow(1000, text="x" * 20_000)

    async with running(log, stream) as relay:
        await caught_up(relay, 1341)

    assert stream.steps[:6] == [1, 4, 16, 64, 256, 500]
    assert stream.steps[6:] == [103] * 4 + [88]


class Unhurried(InMemoryEventStream):
    """Answers only when it is told to; ``asked`` are the last positions of what waits for an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Semaphore(0)
        self.asked: list[int] = []
        self.erased: list[tuple[int, ...]] = []

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        if self.asked:
            assert behind is not None
            assert behind.position == self.asked[-1] == rows[0].position - 1
        self.asked.append(rows[-1].position)
        try:
            await self.answers.acquire()
        finally:
            self.asked.remove(rows[-1].position)
        await super().publish(partition, rows, behind=behind)

    async def erase(self, partition: int, positions: Sequence[int]) -> None:
        assert self.asked == []
        self.erased.append(tuple(positions))
        await super().erase(partition, positions)


async def test_it_sends_some_pages_before_the_first_is_answered() -> None:
    log, stream = GrowingLog(5000), Unhurried()

    async with running(log, stream) as relay:
        await until(lambda: stream.asked == [1, 5, 21, 85])
        assert not isinstance(relay.state, Following)
        stream.answers.release()
        await until(lambda: stream.asked == [5, 21, 85, 341])
        assert relay.state == Following(position=1, head=5000)
        for _ in range(20):
            stream.answers.release()
        await caught_up(relay, 5000)

    assert stream.positions(0) == upto(5000)


async def test_behind_a_page_that_was_refused_it_begins_anew() -> None:
    log, stream = GrowingLog(1000), Unhurried()

    async with running(log, stream) as relay:
        await until(lambda: stream.asked == [1, 5, 21, 85])
        stream.delete(0)
        for _ in range(20):
            stream.answers.release()
        await caught_up(relay, 1000)

    assert stream.positions(0) == upto(1000)


class Readable(GrowingLog):
    """Gives its rows by session, too."""

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        yield tuple(row for row in self.rows if row.session_id == session_id)


async def test_what_is_erased_has_been_published_before() -> None:
    log, stream = Readable(10), Unhurried()
    event = ContentErased(session_id=log.rows[0].session_id, events=1, why="memory", seqs=(1,))
    log.rows[9] = replace(log.rows[0], position=10, seq=4, type=event.TYPE, data=encode_data(event))
    log.rows[0] = replace(log.rows[0], salt=None)

    async with running(log, stream) as relay:
        await until(lambda: stream.asked == [1, 5])
        assert stream.erased == []
        for _ in range(9):
            stream.answers.release()
        await caught_up(relay, 10)

    assert stream.erased == [(1,)]


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

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
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
