"""Up to where traces were sent, in memory."""


class InMemoryTraceCheckpoint:
    """``TraceCheckpoint`` of a process; gone with it."""

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}

    async def position(self, partition: int) -> int | None:
        return self._positions.get(partition)

    async def move(self, partition: int, *, after: int | None, position: int) -> bool:
        if self._positions.get(partition) != after:
            return False
        self._positions[partition] = position
        return True
