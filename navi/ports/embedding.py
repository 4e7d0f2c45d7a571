"""Embedding models."""

from collections.abc import Sequence
from typing import Protocol

from navi.domain.memory.memory import Vector


class Embedder(Protocol):
    """An embedding model."""

    @property
    def model(self) -> str:
        """Its name, as it is stored with every embedding."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        """One vector a text, (dimension,) float32, in order; has a deadline of its own.

        Raises:
            ModelFailure: the server does not answer, refuses a text, or answers nonsense.
        """
        ...


class Embedders(Protocol):
    """Finds the embedding model, which may come and go while the process runs."""

    async def current(self) -> Embedder | None:
        """The model to use now; None where there is none, or none answers.

        Looks for one where none is known, at most once in a while.
        """
        ...
