"""Limit the rate at which is read, so that who floods us waits for us."""

import asyncio


class RateLimit:
    """So many units a second on average, with a second's worth at once."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._free_at = 0.0

    async def take(self, units: float = 1.0) -> bool:
        """Take units; waits as long as more were taken than the rate allows, and says if it did."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - 1.0) + units / self._per_second
        if self._free_at <= now:
            return False
        await asyncio.sleep(self._free_at - now)
        return True
