"""The relay on a real server, and what can happen to one."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import nats
from nats.js.errors import NotFoundError

from navi.adapters.nats.connect import connect
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.application.followers.relay import Degraded, Following, Relay, RelayDelays
from navi.domain.vocabulary.events import TextDelta
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, uuid7
from navi.ports.event_log import Append, NewEvent
from tests.adapters.nats.own_server import OwnServer
from tests.adapters.nats.stored import stored
from tests.application.followers.relaying import FAST, caught_up, running
from tests.support.growing_log import AT, SESSIONS, GrowingLog
from tests.support.until import until


@asynccontextmanager
async def relaying(
    log: GrowingLog,
    url: str,
    *,
    log_id: str = "a",
    pace: RelayDelays = FAST,
    answer_seconds: float = 5,
) -> AsyncGenerator[Relay, None]:
    """A node's relay with a connection of its own."""
    async with connect(url, name="test") as connection:
        stream = JetStream(
            connection,
            log_id=log_id,
            partitions=1,
            max_age_hours=168,
            answer_seconds=answer_seconds,
        )
        async with running(log, stream, pace=pace) as relay:
            yield relay


async def assert_same(url: str, log: GrowingLog, *, first: int = 1) -> None:
    """The stream is exactly the log from a position on, in bytes, in order, without a hole."""
    wanted = [(row.position, f"0-{row.position}", row.wire) for row in log.rows[first - 1 :]]
    assert await stored(url, count=len(wanted)) == wanted
    client = await nats.connect(url)
    try:
        info = await client.jetstream().stream_info("NAVI_0")
        assert (info.state.first_seq, info.state.last_seq) == (first, len(log.rows))
    finally:
        await client.close()


async def holds_all(url: str, log: GrowingLog) -> None:
    """Wait until the stream ends where the log does; the relay may still mean the stream before."""

    async def ends_there() -> bool:
        client = await nats.connect(url)
        try:
            info = await client.jetstream(timeout=60).stream_info("NAVI_0")
        except NotFoundError:
            return False
        finally:
            await client.close()
        return info.state.last_seq == len(log.rows)

    await until(ends_there)


async def test_a_server_that_comes_late_gets_everything(own_server: OwnServer) -> None:
    log = GrowingLog(3000)
    async with relaying(log, own_server.url) as relay:
        await until(lambda: isinstance(relay.state, Degraded))
        await own_server.start()
        await caught_up(relay, 3000)

    await assert_same(own_server.url, log)


async def test_a_server_killed_in_mid_batch_gets_each_event_once(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(5000)
    async with relaying(log, own_server.url) as relay:
        await until(lambda: isinstance(relay.state, Following) and relay.state.position > 1000)
        await own_server.kill()
        log.grow(500)
        await until(lambda: isinstance(relay.state, Degraded))
        await own_server.start()
        await caught_up(relay, 5500)

    await assert_same(own_server.url, log)


async def test_a_server_that_hangs_gets_each_event_once(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(5000)
    async with relaying(log, own_server.url, answer_seconds=0.5) as relay:
        await until(lambda: isinstance(relay.state, Following) and relay.state.position > 1000)
        own_server.freeze()
        await until(lambda: isinstance(relay.state, Degraded))  # after its deadline
        own_server.thaw()
        await caught_up(relay, 5000)

    await assert_same(own_server.url, log)


async def test_a_deleted_stream_is_filled_from_the_beginning(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(500)
    async with relaying(log, own_server.url) as relay:
        await caught_up(relay, 500)
        client = await nats.connect(own_server.url)
        await client.jetstream().delete_stream("NAVI_0")
        await client.close()
        log.grow(20)
        await caught_up(relay, 520)

    await assert_same(own_server.url, log)


async def test_a_stream_deleted_while_nothing_happens_is_filled_too(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(500)
    async with relaying(log, own_server.url) as relay:
        await caught_up(relay, 500)
        client = await nats.connect(own_server.url)
        await client.jetstream().delete_stream("NAVI_0")
        await client.close()
        await holds_all(own_server.url, log)
        await caught_up(relay, 500)

    await assert_same(own_server.url, log)


async def test_what_was_purged_stays_away(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(500)
    async with relaying(log, own_server.url) as relay:
        await caught_up(relay, 500)
        client = await nats.connect(own_server.url)
        await client.jetstream().purge_stream("NAVI_0")
        await client.close()
        log.grow(20)
        await caught_up(relay, 520)

    await assert_same(own_server.url, log, first=501)


async def test_a_store_from_a_backup_is_brought_up_to_date(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(300)
    async with relaying(log, own_server.url) as relay:
        await caught_up(relay, 300)
        await own_server.stop()
        await asyncio.to_thread(own_server.keep_a_copy)
        await own_server.start()
        log.grow(300)
        await caught_up(relay, 600)
        await own_server.stop()
        await asyncio.to_thread(own_server.go_back_to_the_copy)
        await own_server.start()
        await holds_all(own_server.url, log)
        await caught_up(relay, 600)

    await assert_same(own_server.url, log)


async def test_the_stream_of_another_log_stays_untouched(own_server: OwnServer) -> None:
    await own_server.start()
    log = GrowingLog(100)
    async with relaying(log, own_server.url, log_id="a") as relay:
        await caught_up(relay, 100)

    async with relaying(GrowingLog(200), own_server.url, log_id="b") as relay:
        refused = Degraded(
            reason="stream NAVI_0 belongs to another log (a); `navi publish --from 0-1` makes it "
            "anew from this log"
        )
        await until(lambda: relay.state == refused)

    await assert_same(own_server.url, log)


async def test_relays_that_race_and_die_at_random_give_one_stream(own_server: OwnServer) -> None:
    await own_server.start()
    chance = random.Random(1)  # noqa: S311 - a test that can be repeated
    log = GrowingLog(2000)
    eager = RelayDelays(recheck=0.01, stand_by=0.0, first_retry=0.0, last_retry=0.01)

    async def node() -> None:
        while True:
            async with relaying(log, own_server.url, pace=eager):
                await asyncio.sleep(chance.uniform(0.01, 0.1))

    nodes = [asyncio.create_task(node()) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(chance.uniform(0.02, 0.06))
        log.grow(100)
    await own_server.kill()
    await own_server.start()
    for task in nodes:
        task.cancel()
    await asyncio.gather(*nodes, return_exceptions=True)

    async with relaying(log, own_server.url) as relay:
        await caught_up(relay, 4000)
    await assert_same(own_server.url, log)


async def test_a_flapping_server_gets_each_event_once(own_server: OwnServer) -> None:
    log = GrowingLog(1000)
    async with relaying(log, own_server.url) as relay:
        for _ in range(5):
            await own_server.start()
            await caught_up(relay, len(log.rows))
            log.grow(1000)
            await own_server.kill()
        await own_server.start()
        await caught_up(relay, 6000)

    await assert_same(own_server.url, log)


async def test_what_is_appended_to_postgres_reaches_nats(database: str, nats_url: str) -> None:
    async with (
        PostgresEventLog.open(database, allow_unsafe_durability=True) as log,
        connect(nats_url, name="test") as connection,
    ):
        stream = JetStream(connection, log_id=log.log_id, partitions=1, max_age_hours=168)
        async with running(log, stream, pace=RelayDelays(recheck=600)) as relay:
            first = await log.append(append_of(0, 1200))
            await caught_up(relay, 1200)
            second = await log.append(append_of(1200, 1))
            await caught_up(relay, 1201)  # it was woken: it looks again in ten minutes

    assert await stored(nats_url, count=1201) == [
        (row.position, f"0-{row.position}", row.wire) for row in (*first, *second)
    ]


def append_of(expected: int, count: int) -> Append:
    return Append(
        session_id=SESSIONS[0],
        owner=LOCAL_OWNER,
        expected=expected,
        events=tuple(
            NewEvent(
                id=EventId(uuid7(milliseconds=0, random=(expected + nth).to_bytes(10))),
                at=AT,
                turn_id=None,
                subagent_id=None,
                event=TextDelta(call_id=CallId("call_0123456789ab"), text=f"word {nth}"),
            )
            for nth in range(count)
        ),
    )
