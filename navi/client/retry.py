"""Retry while navi does not answer: pauses that grow, up to a time."""

import asyncio
import time

from navi.client.errors import Unavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries
# Of a connection, after which it counts as an answer. A navi that is about to end takes everybody and sends them
# away, and so does one that cannot read a session, each time.
LASTING_SECONDS = 5.0


class Retry:
    """Wait before each next try, longer each time, until nothing has answered for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._pause = FIRST_PAUSE
        self._connected_at: float | None = None

    def connected(self) -> None:
        """A connection is there, until it is ``lost``: begin anew then if it has lasted."""
        self._connected_at = time.monotonic()

    def renew(self) -> None:
        """Begin anew: it has answered."""
        self._until = time.monotonic() + self._seconds
        self._pause = FIRST_PAUSE

    def lost(self) -> bool:
        """The connection, or the hope of one, has ended.

        Returns:
            Whether something has answered, or nothing was tried, before that.
        """
        lasting = min(LASTING_SECONDS, self._seconds)
        if self._connected_at is not None and time.monotonic() - self._connected_at >= lasting:
            self.renew()
        self._connected_at = None
        return self._pause == FIRST_PAUSE

    async def wait(self, why: str, *, seconds: float | None = None) -> None:
        """Wait before the next try.

        Raises:
            Unavailable: there is none, and ``why``.
        """
        await asyncio.sleep(self.pause(why, seconds=seconds))

    def pause(self, why: str, *, seconds: float | None = None) -> float:
        """Seconds before the next try, for who has something else to do meanwhile.

        Raises:
            Unavailable: there is none, and ``why``.
        """
        self.lost()
        pause = self._pause if seconds is None else seconds
        if time.monotonic() + pause > self._until:
            raise Unavailable(why)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return pause
