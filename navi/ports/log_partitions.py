"""The event log by partition: every event in order of commits."""

from typing import Protocol

from msgspec import Struct

from navi.ports.event_log import EventLog, Recorded


class Page(Struct, frozen=True, kw_only=True):
    """A stretch of a log partition.

    Attributes:
        rows: in order of position.
        reached: the last position that was looked at; every wanted row up to it is in ``rows``.
        head: the last position of the partition at that moment.
    """

    rows: tuple[Recorded, ...]
    reached: int
    head: int


class LogPartitions(Protocol):
    """The same events by partition, as whoever follows the whole log sees them."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has; they are numbered from 0."""
        ...

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        """Read a partition behind position ``after``; never skips a late commit.

        Args:
            limit: positions to look at, at most. They are fewer where their payloads would come to
                more than a page holds, some MB: who wants more goes on behind the page's ``reached``.

        Raises:
            LogDamaged: the positions have a hole.
        """
        ...

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the answer tells which came first
        """Wait until the partition's head is beyond ``position``; False after ``timeout`` seconds."""
        ...


class PartitionedLog(EventLog, LogPartitions, Protocol):
    """The log by session and by partition."""
