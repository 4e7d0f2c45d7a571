"""Long texts in memory, once each, by content."""

from collections.abc import Sequence
from hashlib import sha256


class InMemoryTextStore:
    """``TextStore`` in a dict."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def put(self, *texts: str) -> tuple[str, ...]:
        named = [(sha256(text.encode()).hexdigest(), text) for text in texts]
        self._texts.update(named)
        return tuple(name for name, _ in named)

    async def get(self, sha256: str) -> str | None:
        return self._texts.get(sha256)

    async def damaged(self) -> frozenset[str]:
        return frozenset()

    async def drop(self, hashes: Sequence[str]) -> int:
        return sum(self._texts.pop(hash_, None) is not None for hash_ in hashes)

    async def forget(self, *parts: str) -> None:
        kept = {n: t for n, t in self._texts.items() if not all(part in t for part in parts)}
        self._texts = kept
