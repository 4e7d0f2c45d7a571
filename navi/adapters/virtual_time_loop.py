"""An event loop whose time passes only when it is told to, and that says when nobody can go on."""

import asyncio
import selectors
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Never waits: it tells the loop that there is nothing to do but to wait."""

    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready now."""
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self.loop.stalled(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands still while somebody can go on; for programs that wait for nothing outside.

    What ran in it once runs in it again in the same order, as fast as the machine can.
    """

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self._now = 0.0
        self._idle: asyncio.Future[float | None] | None = None
        super().__init__(selector)

    def time(self) -> float:
        """Seconds since the loop was made, as far as it was told."""
        return self._now

    async def idle(self) -> float | None:
        """Wait until nobody else can go on; seconds to the next timer, None without one."""
        self._idle = self.create_future()
        return await self._idle

    def advance(self, seconds: float) -> None:
        """Let time pass; a little more, so that a timer is due whatever the rounding does."""
        self._now += seconds + 1e-6

    def stalled(self, seconds: float | None) -> None:
        """Nobody can go on before ``seconds`` have passed, or None: never."""
        if self._idle is not None:
            waiter, self._idle = self._idle, None
            if not waiter.done():
                waiter.set_result(seconds)
                return
        if seconds is None:
            raise RuntimeError("nobody is left who could go on")
        self.advance(seconds)
