import pytest

from navi.adapters.in_memory.memories import InMemoryMemories
from navi.ports.memories import Memories
from tests.contracts.memories import MemoriesContract
from tests.support.embedding import Chosen


class TestInMemoryMemories(MemoriesContract):
    @pytest.fixture
    def memories(self, chosen: Chosen) -> Memories:
        return InMemoryMemories(chosen)
