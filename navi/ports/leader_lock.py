"""A lock that one process of the service holds at a time."""

from typing import Protocol


class LeaderLock(Protocol):
    """A cluster-wide exclusive lock."""

    async def acquire(self) -> bool:
        """Acquire the lock, or check that it is still held; whether it is.

        Raises:
            LogUnavailable: Postgres does not answer; the lock is not held.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...
