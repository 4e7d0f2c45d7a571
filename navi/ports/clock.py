"""Time and identifiers."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The clock."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class Ids(Protocol):
    """Generates identifiers."""

    def uuid(self) -> str:
        """A new UUIDv7."""
        ...

    def hex12(self) -> str:
        """12 random hex digits, for ids of tool calls and subagents."""
        ...
