"""A flag that tasks wait for: ``asyncio.Event`` where a node has tens of thousands of them."""

import asyncio
from typing import Literal


class Flag:
    """As ``asyncio.Event``, in a tenth of its memory: that has a queue of 600 bytes before anybody waits."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Whether nobody has to wait."""
        return self._is_set

    def set(self) -> None:
        """Wake whoever waits; until ``clear`` nobody has to."""
        self._is_set = True
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():  # as one is that was cancelled
                waiter.set_result(None)

    def clear(self) -> None:
        """Let those wait who come from now on."""
        self._is_set = False

    async def wait(self) -> Literal[True]:
        """Wait until it is set."""
        if self._is_set:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if self._waiters and waiter in self._waiters:
                self._waiters.remove(waiter)
        return True
