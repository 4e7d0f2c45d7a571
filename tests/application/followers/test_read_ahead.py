import asyncio

import pytest

from navi.application.followers.read_ahead import PAGE_ROWS, ReadAhead
from navi.domain.vocabulary.errors import LogUnavailable
from navi.ports.log_partitions import Page
from tests.support.growing_log import GrowingLog
from tests.support.until import until


class WatchedLog(GrowingLog):
    """A log that tells where it was read, and answers when it is let."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.asked: list[int] = []
        self.ended: list[int] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self.away_behind: int | None = None

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        self.asked.append(after)
        try:
            await self.answering.wait()
            if after == self.away_behind:
                raise LogUnavailable("no connection")
            return await super().read_all(partition, after=after, limit=limit, deltas=deltas)
        finally:
            self.ended.append(after)


async def test_the_next_page_is_read_while_the_last_one_is_used() -> None:
    log = WatchedLog(10)

    async with ReadAhead(log, 0, after=0) as pages:
        first = await pages.next()
        await until(lambda: log.asked == [0, 1])
        second = await pages.next()

    assert [row.position for row in (*first.rows, *second.rows)] == [1, 2, 3, 4, 5]


async def test_the_pages_are_all_rows_in_order_and_then_empty() -> None:
    log = WatchedLog(3 * PAGE_ROWS)
    positions: list[int] = []

    async with ReadAhead(log, 0, after=7) as pages:
        while rows := (await pages.next()).rows:
            positions += [row.position for row in rows]

    assert positions == list(range(8, 3 * PAGE_ROWS + 1))


async def test_behind_the_end_of_the_log_nothing_is_read_before_it_is_asked_for() -> None:
    log = WatchedLog(1)

    async with ReadAhead(log, 0, after=0) as pages:
        assert (await pages.next()).rows
        log.grow()
        await asyncio.sleep(0)
        assert log.asked == [0]
        assert [row.position for row in (await pages.next()).rows] == [2]


async def test_what_is_still_being_read_ends_with_the_block() -> None:
    log = WatchedLog(10)

    async with ReadAhead(log, 0, after=0) as pages:
        await pages.next()
        log.answering.clear()
        await until(lambda: log.asked == [0, 1])

    assert log.ended == [0, 1]


async def test_it_goes_on_elsewhere_and_not_with_what_was_read_ahead() -> None:
    log = WatchedLog(10)

    async with ReadAhead(log, 0, after=0) as pages:
        await pages.next()
        await pages.go_to(8)
        rows = (await pages.next()).rows

    assert [row.position for row in rows] == [9, 10]


async def test_a_page_that_cannot_be_read_ahead_fails_where_it_is_asked_for_and_then_is_read_anew() -> (
    None
):
    log = WatchedLog(10)
    log.away_behind = 1

    async with ReadAhead(log, 0, after=0) as pages:
        assert (await pages.next()).rows
        with pytest.raises(LogUnavailable):
            await pages.next()
        log.away_behind = None
        rows = (await pages.next()).rows

    assert [row.position for row in rows] == [2, 3, 4, 5]
