"""Postgres to JetStream, acknowledged: the relay against nats-py's own way of publishing fast."""

import asyncio
import os
import time
from datetime import UTC, datetime

import nats
from nats.js import JetStreamContext

from navi.adapters.nats.connect import connect
from navi.adapters.nats.jetstream import JetStream
from navi.adapters.postgres.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import migrate
from navi.application.followers.relay import Following, Pace, Relay
from navi.domain.events import TextDelta
from navi.domain.ids import LOCAL_OWNER, CallId, EventId, SessionId, uuid7
from navi.ports import Append, NewEvent, Recorded

EVENTS = 20_000
BATCH = 500
ROUNDS = 3
OUTSTANDING = 1000


async def run(dsn: str, nats_url: str) -> dict[str, float]:
    """Messages a second, best of a few rounds, and their ratios; the streams are deleted."""
    await migrate(dsn)
    async with (
        PostgresEventLog.open(dsn, allow_unsafe_durability=True) as log,
        connect(nats_url, name="bench") as connection,
    ):
        await _fill(log)
        rows = await _read(log)
        stream = JetStream(connection, log_id=log.log_id, partitions=1, max_age_hours=1)
        while connection.trouble is not None:  # noqa: ASYNC110 - set-up of a bench
            await asyncio.sleep(0.01)
        raw = adapter = relay = 0.0
        for _ in range(ROUNDS):
            raw = max(raw, await _publish_async(nats_url, stream, rows))
            adapter = max(adapter, await _adapter(stream, rows))
            relay = max(relay, await _relay(log, stream))
        await stream.recreate(0, first_position=1)
    return {
        "nats-py publish_async, expected sequence, msg/s": raw,
        "adapter from memory, msg/s": adapter,
        "relay from Postgres, msg/s": relay,
        "adapter / publish_async": adapter / raw,
        "relay / publish_async": relay / raw,
    }


async def _fill(log: PostgresEventLog) -> None:
    session = SessionId(uuid7(milliseconds=1, random=os.urandom(10)))
    at = datetime(2026, 11, 20, tzinfo=UTC)
    event = TextDelta(call_id=CallId("call_0123456789ab"), text="x" * 60)
    for start in range(0, EVENTS, BATCH):
        news = tuple(
            NewEvent(
                id=EventId(uuid7(milliseconds=start, random=os.urandom(10))),
                at=at,
                turn_id=None,
                subagent_id=None,
                event=event,
            )
            for _ in range(BATCH)
        )
        await log.append(Append(session_id=session, owner=LOCAL_OWNER, expected=start, events=news))


async def _read(log: PostgresEventLog) -> list[Recorded]:
    rows: list[Recorded] = []
    while len(rows) < EVENTS:
        rows += (await log.read_all(0, after=len(rows), limit=BATCH)).rows
    return rows


async def _publish_async(url: str, stream: JetStream, rows: list[Recorded]) -> float:
    await stream.recreate(0, first_position=1)
    client = await nats.connect(url)
    try:
        context: JetStreamContext = client.jetstream(publish_async_max_pending=OUTSTANDING)
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
        await asyncio.wait_for(context.publish_async_completed(), 60)
        return len(rows) / (time.perf_counter() - started)
    finally:
        await client.close()


async def _adapter(stream: JetStream, rows: list[Recorded]) -> float:
    await stream.recreate(0, first_position=1)
    started = time.perf_counter()
    await stream.publish(0, rows)
    return len(rows) / (time.perf_counter() - started)


async def _relay(log: PostgresEventLog, stream: JetStream) -> float:
    await stream.recreate(0, first_position=1)
    relay = Relay(log, stream, 0, Pace())
    started = time.perf_counter()
    task = asyncio.create_task(relay.run())
    while relay.state != Following(position=EVENTS, head=EVENTS):  # noqa: ASYNC110 - a bench looks
        await asyncio.sleep(0.002)
    rate = EVENTS / (time.perf_counter() - started)
    task.cancel()
    await asyncio.wait({task})
    return rate
