"""A lock that one process of the service holds at a time."""

from typing import Protocol


class LeaderLock(Protocol):
    """Lets one process of the service through at a time."""

    async def acquire(self) -> bool:
        """Whether this process is through, until it leaves or Postgres goes away.

        Raises:
            LogUnavailable: Postgres does not answer; nobody is through.
        """
        ...

    def release(self) -> None:
        """Make way for another."""
        ...
