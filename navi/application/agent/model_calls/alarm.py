"""Wait for a wake-up or a deadline: one timer that is moved, in place of a task and a time-out a wait."""

import asyncio


class Alarm:
    """Wakes the one who waits for it; a ring that comes while nobody waits counts for the next wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = float("inf")
        self._rung = False

    def ring(self, _: object = None) -> None:
        """Wake who waits."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def within(self, seconds: float) -> None:
        """Ring in so many seconds, unless it rings before."""
        if seconds <= 0:
            self.ring()
            return
        due = self._loop.time() + seconds
        if due < self._due:
            self.stop()
            self._due, self._timer = due, self._loop.call_at(due, self._go_off)

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, so many seconds at the most; a moment that was set before may end it, too."""
        self.within(seconds)
        if not self._rung:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._rung = False

    def stop(self) -> None:
        """Forget the moment."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, float("inf")

    def _go_off(self) -> None:
        self._timer, self._due = None, float("inf")
        self.ring()
