"""Signed heads on a real JetStream."""

from collections.abc import AsyncGenerator

import pytest

from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.heads_stream import HeadsStream
from navi.domain.vocabulary.errors import BusUnavailable
from navi.ports.signing import HeadsBus
from tests.contracts.heads_bus import HeadsBusContract
from tests.support.nats_client import connected


@pytest.fixture
async def connection(nats_url: str) -> AsyncGenerator[NatsConnection, None]:
    async with connect(nats_url, name="test") as connection:
        await connected(connection)
        yield connection


class TestHeadsStream(HeadsBusContract):
    @pytest.fixture
    def bus(self, connection: NatsConnection) -> HeadsBus:
        return HeadsStream(connection)


async def test_a_stream_that_was_deleted_is_made_again(connection: NatsConnection) -> None:
    bus = HeadsStream(connection)
    await bus.last()
    async with connection.borrow(seconds=5) as client:
        await client.jetstream().delete_stream("NAVI_HEADS")

    with pytest.raises(BusUnavailable):
        await bus.publish(b"one\n")
    assert await bus.last() is None
    await bus.publish(b"one\n")

    async with connection.borrow(seconds=5) as client:
        message = await client.jetstream().get_last_msg("NAVI_HEADS", "navi.heads")
    assert (message.subject, message.data, message.seq) == ("navi.heads", b"one\n", 1)


async def test_without_nats_there_is_no_answer() -> None:
    async with connect("nats://127.0.0.1:1", name="test") as connection:
        with pytest.raises(BusUnavailable):
            await HeadsStream(connection).last()
