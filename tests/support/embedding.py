"""Embedding models for tests: the same vectors as the scripted model server's."""

import asyncio
from collections.abc import Sequence

from navi.domain.memory.memory import Vector
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.embedding import Embedder
from tests.support.model_server import DIMENSIONS, embedding

MODEL = "nomic-embed-text:latest"


class WordEmbedder:
    """Texts with common words are near each other.

    Attributes:
        refused: a text that the model will not take.
        failure: what happens instead of an answer, while it is set.
        stall: what is waited for before an answer, while it is set.
    """

    def __init__(
        self,
        model: str = MODEL,
        *,
        dimension: int = DIMENSIONS,
        refused: str | None = None,
        failure: ModelFailure | None = None,
    ) -> None:
        self._model = model
        self._dimension = dimension
        self.refused = refused
        self.failure = failure
        self.stall: asyncio.Event | None = None
        self.batches: list[tuple[str, ...]] = []

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        self.batches.append(tuple(texts))
        if self.stall is not None:
            await self.stall.wait()
        if self.failure is not None:
            raise self.failure
        if self.refused in texts:
            raise ModelFailure("http", "the input does not please", status=400)
        padding = (0.0,) * (self._dimension - DIMENSIONS)
        return tuple((*embedding(text), *padding) for text in texts)


class Chosen:
    """The port ``Embedders``: what the test puts into ``embedder``."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder

    async def current(self) -> Embedder | None:
        return self.embedder
