"""An asyncio event loop with virtual time, which tells when every task waits."""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.DefaultSelector):
    """A selector that never blocks: it tells the loop when every task waits."""

    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready now."""
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self.loop.stalled(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Virtual time: it advances only by ``advance``, when every task waits.

    What ran in it once runs in it again in the same order, as fast as the machine can.
    """

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self._now = 0.0
        self._idle: asyncio.Future[float | None] | None = None
        super().__init__(selector)

    def time(self) -> float:
        """The virtual time, in seconds since the loop was made."""
        return self._now

    async def idle(self) -> float | None:
        """Wait until every other task waits; seconds to the next timer, None without one."""
        self._idle = self.create_future()
        return await self._idle

    def advance(self, seconds: float) -> None:
        """Advance the time; a little more, so that a timer is due whatever the rounding does."""
        self._now += seconds + 1e-6

    def stalled(self, seconds: float | None) -> None:
        """Every task waits: until ``seconds`` have passed, or for ever if None."""
        if self._idle is not None:
            waiter, self._idle = self._idle, None
            if not waiter.done():
                waiter.set_result(seconds)
                return
        if seconds is None:
            raise RuntimeError("nobody is left who could go on")
        self.advance(seconds)
