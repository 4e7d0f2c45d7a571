"""What an append costs: events a second, as a ratio to a bare multi-row insert of the same run."""

import asyncio
import os
import sys
import time
from datetime import UTC, datetime

import asyncpg

from navi.adapters.postgres.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import migrate
from navi.domain.events import TextDelta, ToolFinished
from navi.domain.ids import CallId, EventId, Owner, SessionId, uuid7
from navi.ports import Append, NewEvent

SECONDS = 3.0
ROUNDS = 3
AT = datetime(2026, 11, 20, tzinfo=UTC)
OWNER = Owner("local")

# The floor: two indexes, a check that the stream has not moved, one round trip.
_TABLE = """
    drop table if exists bench_raw;
    create table bench_raw (
      position bigint generated always as identity primary key, stream uuid not null, seq bigint not null,
      id uuid not null, type text not null, v smallint not null, at timestamptz not null, body json not null,
      unique (stream, seq))"""
_INSERT = """
    insert into bench_raw (stream, seq, id, type, v, at, body)
    select * from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::smallint[],
                         $6::timestamptz[], $7::json[])
    on conflict do nothing returning position"""


def new_id() -> str:
    return uuid7(milliseconds=int(time.time() * 1000), random=os.urandom(10))


def text(size: int) -> NewEvent:
    return NewEvent(
        id=EventId(new_id()),
        at=AT,
        turn_id=None,
        subagent_id=None,
        event=TextDelta(call_id=CallId("call_0123456789ab"), text="x" * size),
    )


def tool(size: int) -> NewEvent:
    return NewEvent(
        id=EventId(new_id()),
        at=AT,
        turn_id=None,
        subagent_id=None,
        event=ToolFinished(
            call_id=CallId("call_0123456789ab"), name="read", outcome="ok", output="x" * size
        ),
    )


async def raw(dsn: str, *, size: int, rows: int = 1000) -> float:
    """Events a second on one connection, ``rows`` in a statement."""
    connection = await asyncpg.connect(dsn)
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=lambda b: b, decoder=bytes
    )
    await connection.execute(_TABLE)
    body = b'{"call_id":"call_0123456789ab","text":"%b"}' % (b"x" * size)
    streams = [new_id() for _ in range(100)]
    seqs = dict.fromkeys(streams, 0)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        chosen = [streams[n % 100] for n in range(rows)]
        numbers = []
        for stream in chosen:
            seqs[stream] += 1
            numbers.append(seqs[stream])
        stored = await connection.fetch(
            _INSERT, chosen, numbers, [new_id() for _ in chosen], ["text_delta"] * rows,
            [1] * rows, [AT] * rows, [body] * rows,
        )  # fmt: skip
        assert len(stored) == rows
        done += rows
    rate = done / (time.perf_counter() - start)
    await connection.close()
    return rate


async def navi(dsn: str, *, sessions: int, events: int, size: int) -> float:
    """Events a second through the log: sessions that each await every append."""
    make = text if size < 200 else tool
    async with PostgresEventLog.open(dsn, allow_unsafe_durability=True) as log:
        done = 0
        end = time.perf_counter() + SECONDS

        async def one() -> None:
            nonlocal done
            session_id, seq = SessionId(new_id()), 0
            while time.perf_counter() < end:
                batch = tuple(make(size) for _ in range(events))
                await log.append(
                    Append(session_id=session_id, owner=OWNER, expected=seq, events=batch)
                )
                seq += events
                done += events

        start = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(sessions)))
        return done / (time.perf_counter() - start)


async def run(dsn: str) -> dict[str, float]:
    """Ratios to the bare insert, medians of interleaved rounds; absolute figures with ``_per_second``."""
    await migrate(dsn)
    figures: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, value in (
            ("raw_small_per_second", await raw(dsn, size=60)),
            ("single_200_per_second", await navi(dsn, sessions=200, events=1, size=60)),
            ("single_1000_per_second", await navi(dsn, sessions=1000, events=1, size=60)),
            ("raw_large_per_second", await raw(dsn, size=270)),
            ("batch_10_per_second", await navi(dsn, sessions=200, events=10, size=230)),
            ("batch_55_per_second", await navi(dsn, sessions=50, events=55, size=230)),
        ):
            figures.setdefault(name, []).append(value)
    middle = {name: sorted(values)[len(values) // 2] for name, values in figures.items()}
    return {
        "append_single_200": middle["single_200_per_second"] / middle["raw_small_per_second"],
        "append_single_1000": middle["single_1000_per_second"] / middle["raw_small_per_second"],
        "append_batch_10": middle["batch_10_per_second"] / middle["raw_large_per_second"],
        "append_batch_55": middle["batch_55_per_second"] / middle["raw_large_per_second"],
        **middle,
    }


if __name__ == "__main__":
    import uvloop

    for key, value in uvloop.run(run(sys.argv[1])).items():
        print(f"{key:24} {value:12.2f}")
