"""Durable consumers of logins stay where they are and miss nothing, also when the log gets more partitions."""

from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest
from nats.aio.client import Client

from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.durables import Durables
from navi.adapters.nats.jetstream import JetStream
from navi.domain.accounts.nats_logins import NatsLogin
from navi.domain.vocabulary.ids import Owner
from tests.support.nats_client import connected

ADA = NatsLogin(id="id-of-ada", owner=Owner("ada"), nkey="U")


@pytest.fixture
async def connection(nats_url: str) -> AsyncGenerator[NatsConnection, None]:
    async with connect(nats_url, name="test") as connection:
        await connected(connection)
        yield connection


async def open_streams(connection: NatsConnection, *, partitions: int) -> None:
    stream = JetStream(connection, log_id="log", partitions=partitions, max_age_hours=None)
    for partition in range(partitions):
        await stream.open(partition)


async def publish(client: Client, *subjects: str) -> None:
    for subject in subjects:
        await client.jetstream().publish(subject, subject.encode())


async def pulled(client: Client, stream: str, count: int) -> Sequence[str]:
    facts = await client.jetstream().pull_subscribe_bind(ADA.durable, stream)
    found: list[str] = []
    for _ in range(count):
        [message] = await facts.fetch(1, timeout=60)
        found.append(message.data.decode())
        await message.ack_sync(timeout=60)
    return found


async def left(client: Client, stream: str) -> int:
    info = await client.jetstream().consumer_info(stream, ADA.durable)
    assert info.num_pending is not None
    return info.num_pending


async def test_a_login_gets_on_with_what_is_new_when_there_are_more_partitions(
    connection: NatsConnection,
) -> None:
    await open_streams(connection, partitions=1)
    await Durables(connection, partitions=1).keep([ADA])
    async with connection.borrow(seconds=60) as client:
        await publish(client, "navi.events.ada.s.1", "navi.events.bob.s.1", "navi.events.ada.s.2")
        assert await pulled(client, "NAVI_0", 1) == ["navi.events.ada.s.1"]

    await open_streams(connection, partitions=2)
    async with connection.borrow(seconds=60) as client:
        # Before anybody has looked at the consumer again: the server would pass by for good what
        # its filter does not name.
        await publish(client, "navi.events.0.ada.s.3", "navi.events.0.bob.s.2")
        assert await pulled(client, "NAVI_0", 2) == ["navi.events.ada.s.2", "navi.events.0.ada.s.3"]
    await Durables(connection, partitions=2).keep([ADA])

    async with connection.borrow(seconds=60) as client:
        await publish(client, "navi.events.0.ada.s.4", "navi.events.1.ada.s.5")
        assert await pulled(client, "NAVI_0", 1) == ["navi.events.0.ada.s.4"]
        assert await pulled(client, "NAVI_1", 1) == ["navi.events.1.ada.s.5"]
        assert (await left(client, "NAVI_0"), await left(client, "NAVI_1")) == (0, 0)


async def test_a_consumer_that_names_one_subject_gets_the_others_and_stays_where_it_is(
    connection: NatsConnection,
) -> None:
    await open_streams(connection, partitions=1)
    async with connection.borrow(seconds=60) as client:
        config = {
            "name": ADA.durable,
            "durable_name": ADA.durable,
            "filter_subject": "navi.events.ada.>",
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": 5_000_000_000,
            "max_ack_pending": 1,
        }
        made = await client.request(
            f"$JS.API.CONSUMER.CREATE.NAVI_0.{ADA.durable}.navi.events.ada.>",
            msgspec.json.encode({"stream_name": "NAVI_0", "config": config}),
            timeout=60,
        )
        assert "error" not in msgspec.json.decode(made.data)
        await publish(client, "navi.events.ada.s.1", "navi.events.ada.s.2")
        assert await pulled(client, "NAVI_0", 1) == ["navi.events.ada.s.1"]
    await open_streams(connection, partitions=2)

    durables = Durables(connection, partitions=2)
    for _ in range(2):
        await durables.keep([ADA])

    async with connection.borrow(seconds=60) as client:
        await publish(client, "navi.events.0.ada.s.3")
        assert await pulled(client, "NAVI_0", 2) == ["navi.events.ada.s.2", "navi.events.0.ada.s.3"]
        assert await left(client, "NAVI_0") == 0
