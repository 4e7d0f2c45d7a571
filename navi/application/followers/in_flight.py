"""Publications of one partition under way: several, so that neither side waits for the other after each."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Self

from navi.ports.event_log import Recorded


class InFlight:
    """What was sent and not answered, oldest first.

    Use it in an ``async with`` block: what is under way at its end is given up.
    """

    def __init__(self) -> None:
        self._sent: deque[tuple[Recorded, asyncio.Task[None]]] = deque()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for _, task in self._sent]
        self._sent.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def last(self) -> Recorded | None:
        """The last row that is under way; None where none is."""
        return self._sent[-1][0] if self._sent else None

    def begin(self, last: Recorded, publication: Coroutine[None, None, None]) -> None:
        """Begin a publication, whose last row this is."""
        self._sent.append((last, asyncio.create_task(publication)))

    async def oldest(self) -> Recorded:
        """Wait for the oldest one; gives its last row.

        Raises:
            StreamMoved, BusUnavailable, StreamRefused: as ``EventStream.publish``.
        """
        last, task = self._sent[0]
        await task
        self._sent.popleft()
        return last
