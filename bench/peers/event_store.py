"""eventsourcing: `PostgresApplicationRecorder`, an insert for each of the 12 events of a turn."""
# pyright: basic
# pyright: reportMissingImports=false

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from bench.peers.turn import ANSWER, CALL_ARGUMENTS, CALL_NAME, CALLS, QUESTION, RESULT


class Aggregate:
    """One session, and how many events it has."""

    def __init__(self) -> None:
        self.id: UUID = uuid4()
        self.version = 0


class EventStore:
    """Aggregates in one table."""

    def __init__(self, recorder: PostgresApplicationRecorder) -> None:
        self._recorder = recorder

    async def session(self, turns: int) -> Aggregate:
        aggregate = Aggregate()
        for _ in range(turns):
            await self._insert(aggregate, tuple(_payloads()))
        return aggregate

    async def turn(self, session: Aggregate) -> None:
        for payload in _payloads():
            await self._insert(session, (payload,))

    async def _insert(self, aggregate: Aggregate, payloads: Sequence[tuple[str, bytes]]) -> None:
        events = [
            StoredEvent(aggregate.id, aggregate.version + number, topic, state)
            for number, (topic, state) in enumerate(payloads, 1)
        ]
        await asyncio.to_thread(self._recorder.insert_events, events)
        aggregate.version += len(events)


def _payloads() -> Iterator[tuple[str, bytes]]:
    yield "asked", json.dumps({"content": QUESTION}).encode()
    for _ in range(CALLS):
        call_id = uuid4().hex
        called = {"id": call_id, "name": CALL_NAME, "arguments": CALL_ARGUMENTS}
        yield "called", json.dumps(called).encode()
        yield "returned", json.dumps({"id": call_id, "output": RESULT}).encode()
    yield "answered", json.dumps({"content": ANSWER}).encode()


@asynccontextmanager
async def opened(dsn: str) -> AsyncGenerator[EventStore, None]:
    """The aggregates in a database."""
    place = urlsplit(dsn)
    options = {name: values[0] for name, values in parse_qs(place.query).items()}
    datastore = PostgresDatastore(
        dbname=place.path.lstrip("/"),
        host=options.get("host") or place.hostname or "",
        port=options.get("port") or str(place.port or 5432),
        user=place.username or "",
        password=place.password or "",
        pool_size=16,
    )
    try:
        recorder = PostgresApplicationRecorder(datastore)
        recorder.create_table()
        yield EventStore(recorder)
    finally:
        datastore.close()
