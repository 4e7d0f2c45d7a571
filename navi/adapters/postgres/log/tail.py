"""The growing end of a partition as this process sees it: every commit once, in order of position.

What this process committed itself, and follows what was delivered before, is delivered straight from
memory; what other nodes committed in between is read from Postgres first.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from navi.adapters.postgres.log.erasures import Erasures
from navi.adapters.postgres.log.pages import Pages
from navi.adapters.postgres.log.ring import Ring
from navi.adapters.postgres.log.watchers import Watchers
from navi.domain.vocabulary.errors import LogDamaged, LogUnavailable
from navi.log_error import log_error
from navi.ports.event_log import Recorded

log = structlog.get_logger()

FIRST_PAUSE = 0.05  # seconds between two looks at Postgres, doubled while nothing is new
LONGEST_PAUSE = 0.5  # with the read itself, other nodes' events are here within a second
PAGE_ROWS = 1000
MAX_AHEAD = 64  # own commits that wait for the rows of other nodes before them


class Tail:
    """The live end of one partition; ``run`` is its task.

    Args:
        position: the head of the partition; rows behind it are delivered.
        read: is told the rows that were not committed here, before anybody who watches.
    """

    def __init__(
        self,
        partition: int,
        *,
        position: int,
        pages: Pages,
        erasures: Erasures,
        read: Callable[[Sequence[Recorded]], None],
    ) -> None:
        self.position = position
        self.ring = Ring()
        self.watchers = Watchers()
        self._partition = partition
        self._pages = pages
        self._erasures = erasures
        erasures.tell(partition, self._forget)
        self._read = read
        self._ahead: dict[int, list[tuple[Recorded, ...]]] = {}  # by first position
        self._known_head = position
        self._wake = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def committed(self, slices: list[tuple[Recorded, ...]]) -> None:
        """Take the rows of a commit of this process, which are consecutive."""
        first, last = slices[0][0].position, slices[-1][-1].position
        self._known_head = max(self._known_head, last)
        if first == self.position + 1:
            self._deliver([row for rows in slices for row in rows])
        elif first > self.position:
            if len(self._ahead) >= MAX_AHEAD:
                self._ahead.clear()  # they are read from Postgres like the others
            self._ahead[first] = slices
            self._wake.set()

    def announced(self, position: int) -> None:
        """Handle another node's notification that the partition has grown."""
        if position > self._known_head:
            self._known_head = position
            self._wake.set()

    async def wait_beyond(self, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the port's
        """Whether a row behind ``position`` was delivered, at the latest after ``timeout`` seconds."""
        if self.position > position:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (position, waiter)
        self._waiters.append(entry)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)
        return True

    async def run(self) -> None:
        """Deliver what other nodes commit; endless, ends by cancellation."""
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                self._wake.clear()
                try:
                    found = await self._catch_up()
                except (LogUnavailable, LogDamaged) as error:
                    # Nothing is skipped: the same place is looked at again.
                    log.warning(
                        "log_tail_failed",
                        partition=self._partition,
                        position=self.position,
                        error=str(error),
                    )
                    pause = LONGEST_PAUSE
                except Exception as error:  # noqa: BLE001 - the border of a follower: without its tail a node hears nothing
                    log_error(log, "log_tail_broke", error, partition=self._partition)
                    pause = LONGEST_PAUSE
                else:
                    pause = FIRST_PAUSE if found else min(2 * pause, LONGEST_PAUSE)
        finally:
            self.watchers.close()
            for _, waiter in self._waiters:
                waiter.cancel()

    def _forget(self) -> None:
        """Drop rows from memory that may have been erased in Postgres."""
        self.ring.clear()
        self._ahead.clear()
        self.watchers.forget()
        self._wake.set()

    async def _catch_up(self) -> bool:
        """Deliver what Postgres has; whether others' commits were among it."""
        found = False
        while True:
            self._deliver_ahead()
            erasures = self._erasures.of(self._partition)
            until = min(self._ahead, default=None)
            limit = PAGE_ROWS if until is None else min(PAGE_ROWS, until - 1 - self.position)
            page = await self._pages.read(self._partition, after=self.position, limit=limit)
            if self._erasures.of(self._partition) != erasures:
                continue  # the page may be from before an erasure that is known by now
            # While the page was read, own commits may have been delivered up to its middle.
            new = [row for row in page.rows if row.position > self.position]
            found = found or bool(new)
            self._read(new)
            self._deliver(new)
            self._deliver_ahead()
            if self.position >= page.head and not self._ahead:
                return found

    def _deliver_ahead(self) -> None:
        for first in sorted(self._ahead):
            if first > self.position + 1:
                return
            for rows in self._ahead.pop(first):
                self._deliver([row for row in rows if row.position > self.position])

    def _deliver(self, rows: Sequence[Recorded]) -> None:
        if not rows:
            return
        self.position = rows[-1].position
        self.ring.extend(rows)
        self.watchers.deliver(rows)
        if self._waiters:
            for position, waiter in self._waiters:
                if position < self.position and not waiter.done():
                    waiter.set_result(None)
