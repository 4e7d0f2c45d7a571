"""The system clock and random identifiers."""

import os
import time
from datetime import UTC, datetime

from navi.domain.vocabulary.ids import uuid7


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
        return uuid7(milliseconds=time.time_ns() // 1_000_000, random=os.urandom(10))

    def hex12(self) -> str:
        """12 random hex digits."""
        return os.urandom(6).hex()
