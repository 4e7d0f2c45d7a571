"""What every implementation of ``Embedder`` does."""

import math

import pytest

from navi.domain.memory.memory import similarity
from navi.ports.embedding import Embedder


class EmbedderContract:
    """A subclass gives ``embedder``."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError

    async def test_every_text_gets_a_vector_of_the_dimension(self, embedder: Embedder) -> None:
        texts = [f"text {number}" for number in range(40)]

        vectors = await embedder.embed(texts)

        assert {len(vector) for vector in vectors} == {embedder.dimension}
        assert len(vectors) == 40
        assert all(math.isfinite(number) for vector in vectors for number in vector)

    async def test_vectors_come_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        together = await embedder.embed(["tea", "a house", "tea"])

        assert together[0] == together[2] != together[1]
        assert (together[1],) == await embedder.embed(["a house"])

    async def test_what_means_the_same_is_near(self, embedder: Embedder) -> None:
        green, black, house = await embedder.embed(["green tea", "black tea", "a house"])

        assert similarity(green, black) > similarity(green, house)

    async def test_without_texts_there_are_no_vectors(self, embedder: Embedder) -> None:
        assert await embedder.embed([]) == ()

    async def test_it_has_a_name(self, embedder: Embedder) -> None:
        assert embedder.model
