import pytest

from navi.adapters.in_memory.place_locks import InMemoryPlaceLocks
from navi.domain.vocabulary.ids import Owner
from navi.ports.user_limits import PlaceLocks
from tests.contracts.place_locks import PlaceLocksContract


class TestInMemoryPlaceLocks(PlaceLocksContract):
    @pytest.fixture
    def taken(self) -> set[tuple[Owner, int]]:
        return set()

    @pytest.fixture
    def one(self, taken: set[tuple[Owner, int]]) -> PlaceLocks:
        return InMemoryPlaceLocks(taken)

    @pytest.fixture
    def other(self, taken: set[tuple[Owner, int]]) -> PlaceLocks:
        return InMemoryPlaceLocks(taken)
