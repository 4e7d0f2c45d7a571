import pytest

from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.domain.vocabulary.errors import BusUnavailable
from tests.contracts.event_stream import EventStreamContract


class TestInMemoryEventStream(EventStreamContract):
    @pytest.fixture
    def stream(self) -> InMemoryEventStream:
        return InMemoryEventStream()


async def test_out_of_reach_it_does_nothing() -> None:
    stream = InMemoryEventStream()
    stream.reachable = False

    with pytest.raises(BusUnavailable):
        await stream.open(0)
