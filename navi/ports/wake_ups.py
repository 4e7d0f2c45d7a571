"""Announcements between nodes that the log has grown."""

from collections.abc import Callable
from typing import Protocol


class WakeUps(Protocol):
    """Notifications between nodes that a log partition has grown; they may get lost."""

    async def announce(self, partition: int, position: int) -> None:
        """Tell the other nodes the new head of a partition; never waits for the network."""
        ...

    def subscribe(self, callback: Callable[[int, int], None]) -> Callable[[], None]:
        """Call ``callback(partition, position)`` when another node announces; gives what ends it."""
        ...
