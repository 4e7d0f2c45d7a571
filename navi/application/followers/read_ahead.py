"""Read a partition page by page, and the next page while the last one is being used."""

import asyncio
from typing import Self

from navi.ports.event_log import Recorded
from navi.ports.log_partitions import Page, PartitionedLog

PAGE_ROWS = 500
PAGE_BYTES = 2 * 1024 * 1024  # aimed at: what the next page will weigh is not known


class ReadAhead:
    """The pages behind a position; the first holds one event, so that what hinders it is told of it alone.

    Use it in an ``async with`` block, which ends what is still being read.
    """

    def __init__(self, events: PartitionedLog, partition: int, *, after: int) -> None:
        self._events = events
        self._partition = partition
        self._after = after
        self._limit = 1
        self._reading: asyncio.Task[Page] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def next(self) -> Page:
        """The page behind the last one; without rows where the log ends.

        The one after it is on its way when this returns, unless the log ends there.

        Raises:
            LogUnavailable, LogDamaged: as ``read_all``.
        """
        reading, self._reading = self._reading or self._read(), None
        page = await reading
        if page.rows:
            self._after, self._limit = page.rows[-1].position, _next_limit(self._limit, page.rows)
            if self._after < page.head:
                self._reading = self._read()
        return page

    async def go_to(self, position: int) -> None:
        """Go on behind another position than where the last page ended."""
        await self._stop()
        self._after = position

    def _read(self) -> "asyncio.Task[Page]":
        return asyncio.create_task(
            self._events.read_all(self._partition, after=self._after, limit=self._limit)
        )

    async def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None


def _next_limit(limit: int, rows: tuple[Recorded, ...]) -> int:
    mean = sum(len(row.wire) for row in rows) // len(rows) + 1
    return max(1, min(limit * 4, PAGE_ROWS, PAGE_BYTES // mean))
