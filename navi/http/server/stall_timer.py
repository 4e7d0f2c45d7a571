"""Detect a peer that does not read: bytes wait for it, and it takes none."""

import asyncio
from collections.abc import Callable


class StallTimer:
    """Calls back once a peer has taken none of the waiting bytes in ``seconds``; until cancelled."""

    def __init__(
        self, transport: asyncio.WriteTransport, *, seconds: float, stalled: Callable[[], None]
    ) -> None:
        """Start now."""
        self._transport = transport
        self._seconds = seconds
        self._stalled = stalled
        self._unsent = transport.get_write_buffer_size()
        self._timer = self._call_later()

    def cancel(self) -> None:
        """Stop looking."""
        self._timer.cancel()

    def _call_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._look)

    def _look(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self._stalled()
            return
        self._unsent = unsent
        self._timer = self._call_later()
