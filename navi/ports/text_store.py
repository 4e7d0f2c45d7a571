"""Long texts, kept once by content."""

from collections.abc import Sequence
from typing import Protocol


class TextStore(Protocol):
    """Long texts that many events refer to (prompts, tool schemas), kept once by content."""

    async def put(self, *texts: str) -> tuple[str, ...]:
        """Keep texts; gives the SHA-256 of the UTF-8 bytes of each, in hex."""
        ...

    async def get(self, sha256: str) -> str | None:
        """The text with that hash, if it is kept."""
        ...

    async def damaged(self) -> frozenset[str]:
        """The hashes under which another text is kept than the one that has them."""
        ...

    async def drop(self, hashes: Sequence[str]) -> int:
        """Drop the texts with those hashes; gives how many there were."""
        ...

    async def forget(self, *parts: str) -> None:
        """Drop every text that contains all the parts."""
        ...
