import pytest

from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.ports.text_store import TextStore
from tests.contracts.text_store import TextStoreContract


class TestInMemoryTextStore(TextStoreContract):
    @pytest.fixture
    def store(self) -> TextStore:
        return InMemoryTextStore()
