"""What is remembered about each user."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from navi.domain.memory.memory import Memory
from navi.domain.vocabulary.ids import Owner
from navi.ports.event_log import Recorded


class Unerased(Struct, frozen=True, kw_only=True):
    """A memory as it was before it was forgotten or changed, whose words may stand in the log still.

    Attributes:
        mark: of the moment at which that was noted.
        noted_at: that moment; a turn that begins behind it does not know the memory as it was.
    """

    owner: Owner
    memory: Memory
    mark: str
    noted_at: datetime


class Memories(Protocol):
    """Memories of each user: a read model of the log, safe to delete.

    Every implementation passes ``tests/contracts/memories.py``. An owner sees and forgets its own only.
    """

    async def position(self, partition: int) -> int:
        """The position up to which the read model has the partition.

        Raises:
            LogUnavailable: Postgres does not answer; so does every method.
        """
        ...

    async def apply(
        self, partition: int, rows: Sequence[Recorded], *, after: int, position: int
    ) -> bool:
        """Store what events did to memories, and that the read model is at ``position`` now.

        Both or neither; other events may be among them. Any process may apply: False, and nothing is
        stored, where the read model is no longer at ``after``.
        """
        ...

    async def all(self, owner: Owner, *, limit: int | None = None) -> tuple[Memory, ...]:
        """The owner's memories, newest first."""
        ...

    async def find(self, owner: Owner, memory_id: str) -> Memory | None:
        """One memory of the owner; None where there is none of that id."""
        ...

    async def find_text(self, owner: Owner, text: str) -> Memory | None:
        """The newest memory of the owner with that text, in capital letters or small ones; None where there is none."""
        ...

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        """What answers a question, best first; nothing for an empty one.

        Found by its words always, and by its meaning where an embedding model answers at once.
        """
        ...

    async def unerased(self, *, limit: int, but: Collection[str] = ()) -> tuple[Unerased, ...]:
        """Memories of all owners as they were, not erased from the log since they were forgotten or changed.

        One that was changed to the same words is not among them.

        Args:
            but: the marks of those that are not wanted.
        """
        ...

    async def note_unerased(self, owner: Owner, memories: Sequence[Memory]) -> None:
        """Note those that are forgotten or have another text by now: their words have come into the log again."""
        ...

    async def erased(self, unerased: Unerased) -> None:
        """Delete what is left of a memory as it was, unless it was noted anew since."""
        ...

    async def embed_missing(self) -> int:
        """Embed a batch of memories that the present model has not; gives how many are done.

        0 where nothing is to be done or no model answers: worth another try after a while.
        """
        ...

    async def reset(self) -> None:
        """Delete everything stored; it is rebuilt from the beginning of the log."""
        ...
