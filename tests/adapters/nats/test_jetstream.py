import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from navi.adapters.nats.connect import NatsConnection, connect
from navi.adapters.nats.jetstream import JetStream
from navi.domain.vocabulary.errors import StreamMoved, StreamRefused
from navi.domain.vocabulary.event_codec import MAX_ENVELOPE_BYTES
from tests.contracts.event_stream import ROWS, EventStreamContract
from tests.support.growing_log import row
from tests.support.nats_client import connected

LOG_ID = "log-of-this-test"


@pytest.fixture
async def connection(nats_url: str) -> AsyncGenerator[NatsConnection, None]:
    async with connect(nats_url, name="test") as connection:
        await connected(connection)
        yield connection


def jetstream(
    connection: NatsConnection,
    *,
    log_id: str = LOG_ID,
    partitions: int = 1,
    hours: int | None = 168,
) -> JetStream:
    return JetStream(connection, log_id=log_id, partitions=partitions, max_age_hours=hours)


async def ask(connection: NatsConnection, what: str, body: object = None) -> dict[str, Any]:
    async with connection.borrow(seconds=5) as client:
        payload = b"" if body is None else msgspec.json.encode(body)
        answer = await client.request(f"$JS.API.STREAM.{what}", payload, timeout=60)
    return msgspec.json.decode(answer.data)


class TestJetStream(EventStreamContract):
    @pytest.fixture
    def stream(self, connection: NatsConnection) -> JetStream:
        return jetstream(connection, partitions=2)


async def test_a_message_has_the_bytes_subject_and_headers_of_the_contract(
    connection: NatsConnection,
) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    await stream.publish(0, ROWS[:2])

    async with connection.borrow(seconds=5) as client:
        context = client.jetstream()
        messages = [await context.get_msg("NAVI_0", seq) for seq in (1, 2)]

    assert [(m.subject, m.data, m.headers) for m in messages] == [
        (
            "navi.deltas.local.01990000-0000-7000-8000-000000000001.text_delta",
            ROWS[0].wire,
            {
                "Nats-Msg-Id": "01990000-0000-7000-8000-000000000001:1",
                "Navi-Position": "0-1",
                "Nats-Expected-Last-Sequence": "0",
            },
        ),
        (
            "navi.events.local.01990000-0000-7000-8000-000000000002.session_renamed",
            ROWS[1].wire,
            {
                "Nats-Msg-Id": "01990000-0000-7000-8000-000000000002:1",
                "Navi-Position": "0-2",
                "Nats-Expected-Last-Sequence": "1",
                "Nats-Expected-Last-Msg-Id": "01990000-0000-7000-8000-000000000001:1",
            },
        ),
    ]


async def test_the_largest_envelopes_go_through_many_at_once(connection: NatsConnection) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    rows = [row(position, text="x" * (MAX_ENVELOPE_BYTES - 400)) for position in range(1, 12)]

    await stream.publish(0, rows)

    assert await stream.open(0) == 11
    assert await stream.event_at(0, 11) == rows[10].id


async def test_what_is_published_meanwhile_comes_behind_the_last_batch_of_large_events(
    connection: NatsConnection,
) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    rows = [row(position, text="x" * (MAX_ENVELOPE_BYTES - 400)) for position in range(1, 12)]

    await asyncio.gather(stream.publish(0, rows[:9]), stream.publish(0, rows[9:], behind=rows[8]))

    assert await stream.open(0) == 11


async def test_settings_changed_by_hand_are_set_right(connection: NatsConnection) -> None:
    stream = jetstream(connection)
    await stream.recreate(0, first_position=1)
    await stream.publish(0, ROWS)
    config = (await ask(connection, "INFO.NAVI_0"))["config"]
    changed = config | {"max_age": 3600 * 10**9, "subjects": ["navi.other.>"], "max_bytes": 9**9}
    assert "error" not in await ask(connection, "UPDATE.NAVI_0", changed | {"allow_direct": False})

    assert await stream.open(0) == 7

    assert (await ask(connection, "INFO.NAVI_0"))["config"] == config | {"max_bytes": 9**9}


async def test_settings_that_nats_does_not_change_are_named(connection: NatsConnection) -> None:
    await ask(
        connection,
        "CREATE.NAVI_0",
        {"name": "NAVI_0", "subjects": ["navi.events.>"], "storage": "memory"},
    )

    with pytest.raises(
        StreamRefused, match=r"NAVI_0 has other settings .*storage.*publish --from 0-1"
    ):
        await jetstream(connection).open(0)


async def test_the_stream_of_another_log_is_refused(connection: NatsConnection) -> None:
    other = jetstream(connection, log_id="another")
    await other.open(0)

    with pytest.raises(
        StreamRefused, match=r"NAVI_0 belongs to another log \(another\); `navi publish --from 0-1`"
    ):
        await jetstream(connection).open(0)

    await jetstream(connection).recreate(0, first_position=1)
    assert await jetstream(connection).open(0) == 0


async def test_a_stream_that_navi_did_not_make_is_refused_unless_it_is_empty(
    connection: NatsConnection,
) -> None:
    config = {"name": "NAVI_0", "subjects": ["navi.events.>"], "storage": "file"}
    await ask(connection, "CREATE.NAVI_0", config)
    assert await jetstream(connection).open(0) == 0

    await ask(connection, "DELETE.NAVI_0")
    await ask(connection, "CREATE.NAVI_0", config)
    async with connection.borrow(seconds=5) as client:
        await client.request("navi.events.x", b"not navi's", timeout=60)

    with pytest.raises(StreamRefused, match="NAVI_0 was not made by navi"):
        await jetstream(connection).open(0)


async def test_a_stream_on_the_same_subjects_is_named(connection: NatsConnection) -> None:
    await ask(connection, "CREATE.OTHER", {"name": "OTHER", "subjects": ["navi.>"]})

    with pytest.raises(StreamRefused, match=r"NAVI_0.*overlap"):
        await jetstream(connection).open(0)


async def test_more_partitions_take_over_the_subjects_of_one(connection: NatsConnection) -> None:
    one, two = jetstream(connection), jetstream(connection, partitions=2)
    await one.open(0)
    await one.publish(0, ROWS[:2])

    with pytest.raises(StreamRefused):
        await two.open(1)
    assert await two.open(0) == 2
    assert await two.open(1) == 0
    await two.publish(1, [row(1, partition=1)])

    info = await ask(connection, "INFO.NAVI_1", {"subjects_filter": ">"})
    assert list(info["state"]["subjects"]) == [
        "navi.deltas.1.local.01990000-0000-7000-8000-000000000001.text_delta"
    ]


async def test_a_session_is_erased_also_where_it_was_published_before_there_were_more_partitions(
    connection: NatsConnection,
) -> None:
    one, two = jetstream(connection), jetstream(connection, partitions=2)
    await one.open(0)
    await one.publish(0, ROWS[:3])
    await two.open(0)
    await two.publish(0, ROWS[3:])
    first = ROWS[0]
    gone = {row.position for row in ROWS if row.session_id == first.session_id}

    await two.erase_session(
        0,
        owner=first.owner,
        session_id=first.session_id,
        types={row.type for row in ROWS},
        before=len(ROWS) + 1,
    )

    assert min(gone) <= 3 < max(gone)
    assert [await two.event_at(0, row.position) for row in ROWS] == [
        None if row.position in gone else row.id for row in ROWS
    ]


async def test_what_nats_will_not_store_is_named(connection: NatsConnection) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    config = (await ask(connection, "INFO.NAVI_0"))["config"]
    assert "error" not in await ask(connection, "UPDATE.NAVI_0", config | {"max_msg_size": 100})

    with pytest.raises(StreamRefused, match=r"NATS does not store 0-1 .*message size"):
        await stream.publish(0, ROWS[:1])


async def test_a_stream_at_its_limits_is_named(connection: NatsConnection) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    config = (await ask(connection, "INFO.NAVI_0"))["config"]
    full = config | {"max_bytes": 1000, "discard": "new"}
    assert "error" not in await ask(connection, "UPDATE.NAVI_0", full)

    async def publish_one_by_one() -> None:
        for event in ROWS:
            await stream.publish(0, [event])

    with pytest.raises(StreamRefused, match=r"NATS does not store 0-\d .*maximum bytes"):
        await publish_one_by_one()

    assert await stream.open(0) > 0  # and it discards old ones again
    await stream.publish(0, [row(await stream.open(0) + 1)])


async def test_a_strangers_message_does_not_take_the_place_of_an_event(
    connection: NatsConnection,
) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    await stream.publish(0, [row(1)])
    async with connection.borrow(seconds=5) as client:
        await client.jetstream().publish("navi.events.local.stranger.said", b"{}")

    # The stranger stands where row 2 belongs, so row 3 alone would fit behind it.
    with pytest.raises(StreamMoved):
        await stream.publish(0, [row(2), row(3), row(4)])

    assert await stream.open(0) == 2
    with pytest.raises(StreamRefused, match="is not navi's"):
        await stream.event_at(0, 2)


async def test_a_strangers_message_is_no_predecessor_of_what_was_sent_meanwhile(
    connection: NatsConnection,
) -> None:
    stream = jetstream(connection)
    await stream.open(0)
    async with connection.borrow(seconds=5) as client:
        await client.jetstream().publish("navi.events.local.stranger.said", b"{}")

    # By its sequence row 2 would fit behind the stranger.
    failed = await asyncio.gather(
        stream.publish(0, [row(1)]),
        stream.publish(0, [row(2), row(3)], behind=row(1)),
        return_exceptions=True,
    )

    assert [type(each) for each in failed] == [StreamMoved, StreamMoved]
    assert await stream.open(0) == 1


async def test_who_does_not_know_how_long_events_are_kept_leaves_that_as_it_is(
    connection: NatsConnection,
) -> None:
    await jetstream(connection, hours=1000).open(0)

    await jetstream(connection, hours=None).open(0)

    info = await ask(connection, "INFO.NAVI_0")
    assert info["config"]["max_age"] == 1000 * 3600 * 10**9


async def test_who_serves_says_how_long_events_are_kept_whoever_made_the_stream(
    connection: NatsConnection,
) -> None:
    await jetstream(connection, hours=None).open(0)

    await jetstream(connection, hours=1000).open(0)

    info = await ask(connection, "INFO.NAVI_0")
    assert info["config"]["max_age"] == 1000 * 3600 * 10**9
