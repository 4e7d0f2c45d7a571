"""The system clock and random identifiers."""

import os
import time
from datetime import UTC, datetime

from navi.domain.vocabulary.ids import uuid7

RANDOM_BYTES = 4096  # fetched at a time


class SystemClock:
    """The port ``Clock`` of the machine."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()


class RandomIds:
    """The port ``Ids``: time and the machine's random numbers."""

    def uuid(self) -> str:
        """A new UUIDv7."""
        return uuid7(milliseconds=time.time_ns() // 1_000_000, random=_random.take(10))

    def hex12(self) -> str:
        """12 random hex digits."""
        return _random.take(6).hex()


class _Random:
    """Random bytes of the machine, fetched many at a time: each event has an id, each call a system call.

    For ids alone: what must stay secret is not kept in memory before it is needed.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next ones; none is given twice."""
        start = self._at
        self._at = end = start + count
        if end > len(self._bytes):
            self._bytes, self._at = os.urandom(RANDOM_BYTES), count
            return self._bytes[:count]
        return self._bytes[start:end]

    def forget(self) -> None:
        """Begin anew, in a process that has the same bytes as its parent."""
        self._bytes, self._at = b"", 0


_random = _Random()
os.register_at_fork(after_in_child=_random.forget)
