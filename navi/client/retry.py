"""Retry while navi does not answer: pauses that grow, up to a time."""

import asyncio
import time

from navi.client.errors import Unavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries


class Retry:
    """Wait before each next try, longer each time, until nothing has answered for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    def renew(self) -> None:
        """Begin anew: it has answered."""
        self._until = time.monotonic() + self._seconds
        self._pause = FIRST_PAUSE

    async def wait(self, why: str, *, seconds: float | None = None) -> None:
        """Wait before the next try.

        Raises:
            Unavailable: there is none, and ``why``.
        """
        pause = self._pause if seconds is None else seconds
        if time.monotonic() + pause > self._until:
            raise Unavailable(why)
        await asyncio.sleep(pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
