import pytest

from navi.ports.embedding import Embedder
from tests.contracts.embedder import EmbedderContract
from tests.support.embedding import WordEmbedder


class TestWordEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return WordEmbedder()
