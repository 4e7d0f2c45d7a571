"""Memories in memory, for tests."""

import math
import re
from collections.abc import Collection, Sequence
from itertools import count

from navi.adapters.memory_embeddings import BATCH_TEXTS, embed_question, embed_texts
from navi.adapters.memory_rows import MemoryKey, memory_changes
from navi.adapters.system import SystemClock
from navi.domain.log.erasure import same_words
from navi.domain.memory.memory import (
    MIN_SIMILARITY,
    Keep,
    Memory,
    Vector,
    fuse,
    memory_version,
    similarity,
)
from navi.domain.vocabulary.ids import Owner
from navi.ports.embedding import Embedders
from navi.ports.event_log import Recorded
from navi.ports.memories import Unerased

_WORD = re.compile(r"\w+")


class InMemoryMemories:
    """``Memories`` without a server."""

    def __init__(self, embedders: Embedders) -> None:
        self._embedders = embedders
        self._positions: dict[int, int] = {}
        self._kept: dict[MemoryKey, Keep] = {}
        self._forgotten: set[MemoryKey] = set()
        self._unerased: dict[MemoryKey, Unerased] = {}
        self._replaced: list[Unerased] = []
        self._marks = count()
        self._vectors: dict[tuple[MemoryKey, str], tuple[int, Vector | None]] = {}

    async def position(self, partition: int) -> int:
        return self._positions.get(partition, 0)

    async def apply(
        self, partition: int, rows: Sequence[Recorded], *, after: int, position: int
    ) -> bool:
        if self._positions.get(partition, 0) != after:
            return False
        self._positions[partition] = position
        changes = memory_changes(rows)
        for key in changes.forgotten:
            self._forgotten.add(key)
            if key in self._kept:
                await self.note_unerased(key[0], [self._kept[key].memory])
            self._drop(key)
        for keep in (*changes.kept, *changes.unerased):
            key = (keep.owner, keep.memory.id)
            if key in self._forgotten:
                await self.note_unerased(keep.owner, [keep.memory])
                continue
            before = self._kept.get(key)
            if before and memory_version(before) >= memory_version(keep):
                continue
            self._drop(key)
            self._kept[key] = keep
            if before:
                await self.note_unerased(keep.owner, [before.memory])
        for keep in changes.replaced:
            await self.note_unerased(keep.owner, [keep.memory])
        return True

    async def all(self, owner: Owner, *, limit: int | None = None) -> tuple[Memory, ...]:
        own = sorted(self._of(owner), key=lambda memory: (memory.at, memory.id), reverse=True)
        return tuple(own[:limit])

    async def find(self, owner: Owner, memory_id: str) -> Memory | None:
        keep = self._kept.get((owner, memory_id))
        return keep.memory if keep else None

    async def find_text(self, owner: Owner, text: str) -> Memory | None:
        same = (memory for memory in self._of(owner) if memory.text.lower() == text.lower())
        return max(same, key=lambda memory: (memory.at, memory.id), default=None)

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        rankings = [self._by_words(owner, query)] if query.strip() else []
        question = await embed_question(self._embedders, query) if rankings else None
        if question is not None:
            embedder, vector = question
            near = {
                memory.id: similarity(vector, stored)
                for memory in self._of(owner)
                if (stored := self._vector(owner, memory.id, embedder.model, len(vector)))
            }
            wanted = (id_ for id_, nearness in near.items() if nearness >= MIN_SIMILARITY)
            rankings.append(sorted(wanted, key=lambda id_: (-near[id_], id_)))
        return tuple(self._kept[owner, id_].memory for id_ in fuse(rankings, limit=limit))

    async def unerased(self, *, limit: int, but: Collection[str] = ()) -> tuple[Unerased, ...]:
        noted = (*self._unerased.values(), *self._replaced)
        return tuple(one for one in noted if one.mark not in but)[:limit]

    async def note_unerased(self, owner: Owner, memories: Sequence[Memory]) -> None:
        for memory in memories:
            noted = Unerased(
                owner=owner,
                memory=memory,
                mark=str(next(self._marks)),
                noted_at=SystemClock().now(),
            )
            keep = self._kept.get((owner, memory.id))
            if (owner, memory.id) in self._forgotten:
                self._unerased[owner, memory.id] = noted
            elif keep is not None and not same_words(keep.memory.text, memory.text):
                self._replaced.append(noted)

    async def erased(self, unerased: Unerased) -> None:
        key = (unerased.owner, unerased.memory.id)
        if self._unerased.get(key) == unerased:
            del self._unerased[key]
        self._replaced = [one for one in self._replaced if one != unerased]

    async def embed_missing(self) -> int:
        embedder = await self._embedders.current()
        if embedder is None:
            return 0
        missing = [
            (key, keep.memory.text)
            for key, keep in self._kept.items()
            if self._vectors.get((key, embedder.model), (0, None))[0] != embedder.dimension
        ][:BATCH_TEXTS]
        if not missing:
            return 0
        vectors = await embed_texts(embedder, [text for _, text in missing])
        if vectors is None:
            return 0
        for (key, text), vector in zip(missing, vectors, strict=True):
            if key in self._kept and self._kept[key].memory.text == text:
                self._vectors[key, embedder.model] = (embedder.dimension, vector)
        return len(missing)

    async def reset(self) -> None:
        self._positions.clear()
        self._kept.clear()
        self._forgotten.clear()
        self._unerased.clear()
        self._replaced.clear()
        self._vectors.clear()

    def _of(self, owner: Owner) -> list[Memory]:
        return [keep.memory for (whose, _), keep in self._kept.items() if whose == owner]

    def _vector(self, owner: Owner, id_: str, model: str, dimension: int) -> Vector | None:
        known, vector = self._vectors.get(((owner, id_), model), (0, None))
        return vector if known == dimension else None

    def _drop(self, key: MemoryKey) -> None:
        self._kept.pop(key, None)
        for place in [place for place in self._vectors if place[0] == key]:
            del self._vectors[place]

    def _by_words(self, owner: Owner, query: str) -> Sequence[str]:
        """As ``postgres.memory_search`` does it, with simpler words and no operators."""
        memories = {memory.id: memory for memory in self._of(owner)}
        texts = {id_: _words(memory.text) for id_, memory in memories.items()}
        scores: dict[str, float] = {}
        asked = _words(query)
        for word in asked:
            weights = {id_: w for id_, words in texts.items() if (w := _weight(word, words))}
            for id_, weight in weights.items():
                others = len(texts) - len(weights)
                rarity = math.log(1 + (others + 0.5) / (len(weights) + 0.5)) ** 2
                scores[id_] = scores.get(id_, 0.0) + weight * rarity
        if not scores:
            return [id_ for id_, memory in memories.items() if query.lower() in memory.text.lower()]
        best = max(scores.values())
        whole = {id_ for id_ in scores if asked <= texts[id_]}
        return sorted(
            (id_ for id_, score in scores.items() if id_ in whole or score >= 0.3 * best),
            key=lambda id_: (id_ in whole, scores[id_], memories[id_].at, id_),
            reverse=True,
        )


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _weight(word: str, words: frozenset[str]) -> float:
    if word in words:
        return 1.0
    if len(word) < 3:
        return 0.0
    beginning = word[: max(3, len(word) - 2)]
    return 0.6 if any(other.startswith(beginning) for other in words) else 0.0
