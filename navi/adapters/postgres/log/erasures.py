"""Track erasures: each one increments its partition's count, and rows in memory are dropped."""

from collections.abc import Callable


class Erasures:
    """The count of erasures in each partition, as seen by this process.

    Every look at the head of a partition or of a session brings the count along, so that a read
    which follows an erasure anywhere does not come from memory.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._forget: dict[int, Callable[[], None]] = {}

    def of(self, partition: int) -> int:
        """The largest count seen."""
        return self._counts.get(partition, 0)

    def tell(self, partition: int, forget: Callable[[], None]) -> None:
        """Call ``forget`` whenever something was erased in the partition."""
        self._forget[partition] = forget

    def seen(self, partition: int, count: int) -> None:
        """Update the count from Postgres; an older one is ignored."""
        if count <= self.of(partition):
            return
        self._counts[partition] = count
        forget = self._forget.get(partition)
        if forget is not None:
            forget()
