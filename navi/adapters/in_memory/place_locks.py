"""Numbered places of owners, for the nodes of one process."""

from collections.abc import Sequence

from navi.domain.vocabulary.ids import Owner


class InMemoryPlaceLocks:
    """``PlaceLocks`` of a node; nodes that share ``taken`` are one cluster."""

    def __init__(self, taken: set[tuple[Owner, int]] | None = None) -> None:
        self._taken = set[tuple[Owner, int]]() if taken is None else taken

    async def lock(self, owner: Owner, numbers: Sequence[int]) -> int | None:
        for number in numbers:
            if (owner, number) not in self._taken:
                self._taken.add((owner, number))
                return number
        return None

    async def unlock(self, owner: Owner, number: int) -> None:
        self._taken.discard((owner, number))
