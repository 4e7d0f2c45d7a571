import pytest

from navi.adapters.in_memory.heads_bus import InMemoryHeadsBus
from navi.domain.vocabulary.errors import BusUnavailable
from navi.ports.signing import HeadsBus
from tests.contracts.heads_bus import HeadsBusContract


class TestInMemoryHeadsBus(HeadsBusContract):
    @pytest.fixture
    def bus(self) -> HeadsBus:
        return InMemoryHeadsBus()


async def test_out_of_reach_it_does_nothing() -> None:
    bus = InMemoryHeadsBus()
    bus.reachable = False

    with pytest.raises(BusUnavailable):
        await bus.last()
    with pytest.raises(BusUnavailable):
        await bus.publish(b"x\n")
