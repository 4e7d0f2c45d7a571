"""Postgres to JetStream, acknowledged: the relay against nats-py's own fast way, and against what NATS takes."""

import asyncio
import statistics
import time
from contextlib import suppress
from typing import Any

import nats

from bench.measure import Figure, Pace, at_least, in_turns, ratios
from bench.servers import Servers, new_id, open_store
from bench.workload import append_many
from navi.adapters.nats.connect import BurstClient, connect
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.application.followers.relay import Following, Relay
from navi.application.followers.relay import RelayDelays as RelayPace
from navi.domain.vocabulary.errors import StreamRefused
from navi.domain.vocabulary.events import TextDelta
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.ports.event_log import Recorded

PAGE = 500
OUTSTANDING = 1000
BURST = 250
BURSTS_UNANSWERED = 20  # a JetStream server queues 10,000 messages
TIMEOUT = 60.0  # seconds for a measurement
DELTA = TextDelta(call_id=CallId("call_0123456789ab"), text="x" * 60)


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 8: messages a second from the log to a stream, of the same messages from memory."""
    events = int(pace.seconds * 10_000)
    async with servers.database() as dsn:
        async with open_store(dsn) as writer:
            await append_many(writer, SessionId(new_id()), DELTA, count=events)
        # Another process: what it relays comes from Postgres.
        async with open_store(dsn) as store, connect(servers.nats_url, name="bench") as connection:
            stream = JetStream(connection, log_id=store.log.log_id, partitions=1, max_age_hours=1)
            async with asyncio.timeout(TIMEOUT):
                while connection.trouble is not None:  # noqa: ASYNC110 - a bench looks
                    await asyncio.sleep(0.01)
            rows = await _read(store.log, events)
            rates = await in_turns(
                pace.rounds,
                {
                    "raw": lambda: _publish_async(servers.nats_url, stream, rows),
                    "ready": lambda: _publish_ready(servers.nats_url, stream, rows),
                    "navi": lambda: _relay(store.log, stream, events),
                },
            )
            await stream.recreate(0, first_position=1)
    return [
        Figure(
            row=8,
            what="Postgres to JetStream, acknowledged / nats-py's `publish_async` from memory",
            values=ratios(rates["navi"], rates["raw"]),
            target=at_least(0.7),
            beside={
                "navi, msgs/s": statistics.median(rates["navi"]),
                "raw, msgs/s": statistics.median(rates["raw"]),
            },
        ),
        Figure(
            row=8,
            what="the same / the same messages from memory, ready for the wire: what nats-server takes",
            values=ratios(rates["navi"], rates["ready"]),
            target=at_least(0.5),
            beside={"ready, msgs/s": statistics.median(rates["ready"])},
        ),
    ]


async def _read(log: PostgresEventLog, events: int) -> list[Recorded]:
    rows: list[Recorded] = []
    while len(rows) < events:
        rows += (await log.read_all(0, after=len(rows), limit=PAGE)).rows
    return rows


async def _publish_async(url: str, stream: JetStream, rows: list[Recorded]) -> float:
    await stream.recreate(0, first_position=1)
    client: Any = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType] - nats-py's **options
    try:
        context = client.jetstream(publish_async_max_pending=OUTSTANDING)
        started = time.perf_counter()
        for row in rows:
            await context.publish_async(
                f"navi.deltas.local.{row.session_id}.text_delta",
                row.wire,
                headers={
                    "Nats-Msg-Id": f"{row.session_id}:{row.seq}",
                    "Navi-Position": f"0-{row.position}",
                    "Nats-Expected-Last-Sequence": str(row.position - 1),
                },
            )
        async with asyncio.timeout(TIMEOUT):
            await context.publish_async_completed()
        return len(rows) / (time.perf_counter() - started)
    finally:
        await client.close()


async def _publish_ready(url: str, stream: JetStream, rows: list[Recorded]) -> float:
    await _recreate(stream)
    bursts = [
        stream.messages(rows[at : at + BURST], behind=rows[at - 1] if at else None)
        for at in range(0, len(rows), BURST)
    ]
    client = BurstClient()
    await client.connect(url)
    try:
        started = time.perf_counter()
        for number, burst in enumerate(bursts, start=1):
            await client.publish_burst(burst)
            if number % BURSTS_UNANSWERED == 0:
                await client.flush()
        async with asyncio.timeout(TIMEOUT):
            while await stream.open(0) < len(rows):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.002)
        return len(rows) / (time.perf_counter() - started)
    finally:
        await client.close()


async def _relay(log: PostgresEventLog, stream: JetStream, events: int) -> float:
    await _recreate(stream)
    relay = Relay(log, stream, 0, RelayPace())
    started = time.perf_counter()
    task = asyncio.create_task(relay.run())
    try:
        async with asyncio.timeout(TIMEOUT):
            while relay.state != Following(position=events, head=events):  # noqa: ASYNC110 - a bench looks
                await asyncio.sleep(0.002)
        return events / (time.perf_counter() - started)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _recreate(stream: JetStream) -> None:
    """An empty stream; a busy server may not have removed the files of the last one yet."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                await stream.recreate(0, first_position=1)
            except StreamRefused:
                await asyncio.sleep(0.2)
            else:
                return
