"""The floor that navi's writing is compared with: bare multi-row inserts that check the stream's version."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import msgspec

from bench.servers import new_id
from navi.adapters.postgres.connect import Connection
from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import EVENT_TYPES, AgentEvent, KnownEvent

AT = datetime(2026, 11, 20, tzinfo=UTC)

# Two indexes, a check that the stream has not moved, one round trip.
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
_READ = """
    select type, body from bench_raw
     where stream = $1 and ($2::text[] is null or type = any($2)) order by seq"""

EncodedStep = tuple[list[str], list[bytes]]  # types and bodies of one commit


class RawStreams:
    """One connection that inserts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def insert(
        self,
        streams: Sequence[str],
        seqs: Sequence[int],
        types: Sequence[str],
        bodies: Sequence[bytes],
    ) -> None:
        """Insert rows in one statement, which is one commit."""
        rows = len(bodies)
        stored = await self._connection.fetch(
            _INSERT, streams, seqs, [new_id() for _ in range(rows)], types, [1] * rows, [AT] * rows, bodies
        )  # fmt: skip
        assert len(stored) == rows

    async def write(self, stream: str, steps: Sequence[EncodedStep], *, after: int) -> int:
        """Insert steps of one stream, a commit each; gives the last seq."""
        for types, bodies in steps:
            count = len(bodies)
            seqs = range(after + 1, after + count + 1)
            await self.insert([stream] * count, list(seqs), types, bodies)
            after += count
        return after

    async def load(self, stream: str, types: Collection[str] | None = None) -> list[KnownEvent]:
        """The events of a stream, decoded; all of them, or those of some types."""
        rows = await self._connection.fetch(_READ, stream, types)
        return [_DECODERS[row[0]](row[1]) for row in rows]


class RawGroup:
    """Streams that share one connection: what all of them want to insert while a statement runs is the next."""

    def __init__(self, raw: RawStreams) -> None:
        self._raw = raw
        self._waiting: list[tuple[str, int, EncodedStep, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()

    async def write(self, stream: str, steps: Sequence[EncodedStep], *, after: int) -> int:
        """As ``RawStreams.write``, each step in one statement with those of other streams."""
        loop = asyncio.get_running_loop()
        for step in steps:
            answer: asyncio.Future[None] = loop.create_future()
            self._waiting.append((stream, after, step, answer))
            self._arrived.set()
            await answer
            after += len(step[1])
        return after

    async def run(self) -> None:
        """Insert group after group; endless, ends by cancellation."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            group, self._waiting = self._waiting, []
            counts = [len(bodies) for _, _, (_, bodies), _ in group]
            await self._raw.insert(
                [one[0] for one, count in zip(group, counts, strict=True) for _ in range(count)],
                [
                    one[1] + nth
                    for one, n in zip(group, counts, strict=True)
                    for nth in range(1, n + 1)
                ],
                [name for _, _, (types, _), _ in group for name in types],
                [body for _, _, (_, bodies), _ in group for body in bodies],
            )
            for *_, answer in group:
                answer.set_result(None)


_DECODERS = {name: msgspec.json.Decoder(kind).decode for name, kind in EVENT_TYPES.items()}


def encode_steps(steps: Sequence[Sequence[AgentEvent]]) -> list[EncodedStep]:
    """Steps as the bare insert takes them: encoded beforehand, so that the floor is the database's."""
    return [
        ([type(event).TYPE for event in step], [encode_data(event) for event in step])  # type: ignore[union-attr]
        for step in steps
    ]


@asynccontextmanager
async def open_raw(dsn: str, *, fresh: bool = True) -> AsyncGenerator[RawStreams, None]:
    """A connection with the table of the floor.

    Args:
        fresh: make the table anew.
    """
    connection: Connection = await asyncpg.connect(dsn)
    try:
        await connection.set_type_codec(
            "json", schema="pg_catalog", format="binary", encoder=_same, decoder=bytes
        )
        if fresh:
            await connection.execute(_TABLE)
        yield RawStreams(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def open_group(dsn: str) -> AsyncGenerator[RawGroup, None]:
    """A connection that streams share, on the table that is there."""
    async with open_raw(dsn, fresh=False) as raw:
        group = RawGroup(raw)
        running = asyncio.create_task(group.run())
        try:
            yield group
        finally:
            running.cancel()


def _same(data: bytes) -> bytes:
    return data
