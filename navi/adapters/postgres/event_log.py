"""The event log in Postgres: the only truth."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog
from msgspec import Struct

from navi.adapters.log_rows import encode_events, hashes_of
from navi.adapters.postgres import statements
from navi.adapters.postgres.connect import (
    Pool,
    check_server,
    connect,
    fetch,
    open_pool,
)
from navi.adapters.postgres.heads import Fork, Head, Heads
from navi.adapters.postgres.pages import Pages, row_of
from navi.adapters.postgres.tail import Tail
from navi.adapters.postgres.writer import Slice, Writer
from navi.domain.errors import ConcurrentAppend, LogDamaged, LogUnavailable, NotFound
from navi.domain.event_codec import decode_data
from navi.domain.events import DELTA_TYPES, SessionCreated, UserMessageReceived
from navi.domain.hash_chain import GENESIS
from navi.domain.ids import MessageId, Owner, SessionId, is_uuid
from navi.ports import Append, Page, Recorded, WakeUps

log = structlog.get_logger()

READ_CONNECTIONS = 8
READ_ROWS = 1000  # a batch of a session's rows
BATCH_BYTES = 8 * 1024 * 1024  # what a batch of a session's rows should not exceed, about
FIRST_READ_ROWS = 200  # before it is known how large the rows are
MAX_REFUSALS = 3  # a slice is offered again only where this process' picture of the session was old


class SessionPart(Struct, frozen=True, kw_only=True):
    """A stretch of a session's events that stand under one id: its own, or a fork's origin's."""

    partition: int
    session_id: SessionId
    after: int
    until: int


class PostgresEventLog:
    """``EventLog`` on Postgres; made by ``open``, which owns its connections and tasks."""

    def __init__(
        self,
        *,
        log_id: str,
        reads: Pool,
        pages: Pages,
        new_sessions_over: int,
        writers: Sequence[Writer],
        tails: Sequence[Tail],
        heads: Heads,
        append_deadline: float,
    ) -> None:
        self._log_id = log_id
        self._reads = reads
        self._pages = pages
        self._new_sessions_over = new_sessions_over
        self._writers = writers
        self._tails = tails
        self._heads = heads
        self._append_deadline = append_deadline

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        *,
        partitions: int = 1,
        wake_ups: WakeUps | None = None,
        allow_unsafe_durability: bool = False,
        append_deadline: float = 5.0,
    ) -> AsyncGenerator["PostgresEventLog", None]:
        """The log of a migrated database, until the block ends.

        Args:
            partitions: over how many new sessions are spread; made where they are missing.
            wake_ups: word of other nodes' commits; without it Postgres is asked twice a second.
            allow_unsafe_durability: whether a server with ``fsync = off`` will do.
            append_deadline: seconds after which an append without an answer is given up.

        Raises:
            StoreRefused: the server does not keep what it commits, or is too old.
            LogUnavailable: Postgres does not answer.
        """
        async with (
            open_pool(dsn, size=READ_CONNECTIONS) as reads,
            open_pool(dsn, size=2) as tail_reads,
        ):
            log_id, count = await _set_up(dsn, partitions, allow_unsafe_durability)
            heads = Heads()
            pages = Pages(tail_reads)
            tails = [
                Tail(
                    number,
                    position=await pages.head(number),
                    pages=pages,
                    delivered=heads.advance,
                )
                for number in range(count)
            ]
            writers = [
                Writer(
                    number,
                    connect=partial(connect, dsn),
                    committed=partial(_hand_on, heads, tails[number], wake_ups),
                )
                for number in range(count)
            ]
            async with _running([*writers, *tails]), _woken(wake_ups, tails):
                yield cls(
                    log_id=log_id,
                    reads=reads,
                    pages=Pages(reads),
                    new_sessions_over=partitions,
                    writers=writers,
                    tails=tails,
                    heads=heads,
                    append_deadline=append_deadline,
                )

    @property
    def log_id(self) -> str:
        """Which log this is: a UUID made with the database."""
        return self._log_id

    @property
    def partitions(self) -> int:
        return len(self._tails)

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if not batch.events:
            return ()
        events = encode_events(batch)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._append_deadline
        head = self._heads.get(batch.session_id)
        if head is None and batch.expected > 0:
            head = await self._load_head(batch.session_id)
        for _ in range(MAX_REFUSALS):
            new = await self._beginning(batch) if head is None else None
            start = head or new
            if start is not None and start.seq == batch.expected:
                answer = loop.create_future()
                slice_ = Slice(
                    session_id=batch.session_id,
                    owner=start.owner,
                    is_new=head is None,
                    forked_from=start.fork.session_id if start.fork and head is None else None,
                    expected=batch.expected,
                    previous_position=start.position,
                    previous_hash=start.hash,
                    events=events,
                    hashes=hashes_of(
                        events,
                        session_id=batch.session_id,
                        expected=batch.expected,
                        previous=start.hash,
                    ),
                    deadline=deadline,
                    answer=answer,
                )
                try:
                    rows = await self._writer(start.partition).submit(slice_)
                except BaseException:
                    # Stored or not: the next append looks.
                    self._heads.drop(batch.session_id)
                    raise
                if rows is not None:
                    if head is None:
                        self._heads.put(batch.session_id, _moved(start, rows[-1]))
                    return rows
            before, head = head, await self._load_head(batch.session_id)
            if head is None or head == before or head.seq != batch.expected:
                break
        return await self._first_answer(batch, head)

    async def head(self, session_id: SessionId) -> int:
        head = await self._load_head(session_id)
        return 0 if head is None else head.seq

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        head = self._heads.get(session_id) or await self._load_head(session_id)
        return None if head is None else head.owner

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        head = await self._load_head(session_id)
        if head is None:
            return
        end = head.seq if until is None else min(until, head.seq)
        for part in await self._parts(session_id, head, after=after, until=end):
            async for rows in self._read_part(part, deltas=deltas):
                yield rows

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        head = await self._load_head(session_id)
        if head is None:
            return None
        for part in await self._parts(session_id, head, after=0, until=head.seq):
            place = (part.partition, part.session_id, message_id, part.until)
            for row in await fetch(self._reads, statements.RECEIPT, *place):
                event = decode_data(UserMessageReceived.TYPE, row["v"], row["data"])
                if isinstance(event, UserMessageReceived):
                    return row["seq"], event
        return None

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        tail = self._tail(partition)
        recent = tail.ring.positions(after=after, limit=limit)
        if not recent:
            return await self._pages.read(partition, after=after, limit=limit, deltas=deltas)
        return Page(rows=_wanted(recent, deltas), reached=recent[-1].position, head=tail.position)

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the port's
        return await self._tail(partition).wait_beyond(position, timeout=timeout)

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        head = self._heads.get(session_id) or await self._load_head(session_id)
        tail = self._tail(self._place_of(session_id) if head is None else head.partition)
        reached = after
        # Whatever is delivered from here on comes to the watcher; what was before, the log has.
        with tail.watchers.watching(session_id) as watcher:
            while True:
                recent = tail.ring.session(session_id, after=reached)
                if recent is None:
                    async for rows in self.read(session_id, after=reached):
                        reached = rows[-1].seq
                        yield rows
                elif recent:
                    reached = recent[-1].seq
                    for start in range(0, len(recent), READ_ROWS):
                        yield recent[start : start + READ_ROWS]
                while (live := await watcher.take()) is not None:
                    news = tuple(row for row in live if row.seq > reached)
                    if not news:
                        continue
                    if news[0].seq != reached + 1:
                        break  # the log knows what lies between
                    reached = news[-1].seq
                    yield news

    # --- helpers of append ---

    async def _beginning(self, batch: Append) -> Head | None:
        """What the first event of a new session follows; None where it would not be its first."""
        first = batch.events[0].event
        origin = first.forked_from if isinstance(first, SessionCreated) else None
        fork = None
        if batch.expected > 0:
            if origin is None or origin.seq != batch.expected:
                return None
            rows = [
                row
                async for part in self.read(
                    origin.session_id, after=origin.seq - 1, until=origin.seq
                )
                for row in part
            ]
            if not rows:
                raise NotFound(f"session {origin.session_id} has no event {origin.seq}")
            fork = Fork(session_id=origin.session_id, seq=origin.seq, hash=rows[0].hash)
        return Head(
            partition=self._place_of(batch.session_id),
            owner=batch.owner,
            fork=fork,
            position=0,
            seq=batch.expected,
            hash=GENESIS if fork is None else fork.hash,
        )

    async def _first_answer(self, batch: Append, head: Head | None) -> tuple[Recorded, ...]:
        """What the same append gave before.

        Raises:
            ConcurrentAppend: other events stand where these want to go.
        """
        if head is not None:
            self._heads.put(batch.session_id, head)
            if head.seq >= batch.expected + len(batch.events):
                rows = await fetch(
                    self._reads,
                    statements.SESSION_ROWS,
                    head.partition,
                    batch.session_id,
                    batch.expected,
                    batch.expected + len(batch.events),
                    len(batch.events),
                )
                stored = tuple(map(row_of, rows))
                if [row.id for row in stored] == [event.id for event in batch.events]:
                    return stored
        raise ConcurrentAppend(batch.session_id, batch.expected)

    def _place_of(self, session_id: SessionId) -> int:
        """The partition of a session that is not in the registry yet."""
        return zlib.crc32(session_id.encode()) % self._new_sessions_over

    def _writer(self, partition: int) -> Writer:
        self._tail(partition)
        return self._writers[partition]

    def _tail(self, partition: int) -> Tail:
        if not 0 <= partition < len(self._tails):
            raise LogUnavailable(f"partition {partition} was added after this process was started")
        return self._tails[partition]

    # --- helpers of reading ---

    async def _load_head(self, session_id: SessionId) -> Head | None:
        """The session's head as Postgres has it now."""
        if not is_uuid(session_id):
            return None
        rows = await fetch(self._reads, statements.HEAD_OF_SESSION, session_id)
        if not rows:
            return None
        row = rows[0]
        fork = None
        if row["forked_from"] is not None:
            fork = Fork(
                session_id=SessionId(str(row["forked_from"])),
                seq=row["base_seq"],
                hash=row["base_hash"],
            )
        return Head(
            partition=row["partition"],
            owner=Owner(row["owner"]),
            fork=fork,
            position=row["position"],
            seq=row["seq"],
            hash=row["hash"],
        )

    async def _parts(
        self, session_id: SessionId, head: Head, *, after: int, until: int
    ) -> list[SessionPart]:
        """Where the events of a session stand, in order: those of a fork's origins first."""
        parts: list[SessionPart] = []
        here: Head | None = head
        while here is not None and after < until:
            base = 0 if here.fork is None else here.fork.seq
            if until > base:
                parts.append(
                    SessionPart(
                        partition=here.partition,
                        session_id=session_id,
                        after=max(after, base),
                        until=until,
                    )
                )
            if here.fork is None:
                break
            session_id, until = here.fork.session_id, min(until, base)
            here = await self._load_head(session_id)
        return parts[::-1]

    async def _read_part(
        self, part: SessionPart, *, deltas: bool
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        statement = statements.SESSION_ROWS if deltas else statements.SESSION_FACTS
        after, limit = part.after, FIRST_READ_ROWS
        while after < part.until:
            recent = self._tail(part.partition).ring.session(part.session_id, after=after)
            if recent:
                recent = tuple(row for row in recent[:READ_ROWS] if row.seq <= part.until)
                after = recent[-1].seq
                if wanted := _wanted(recent, deltas):
                    yield wanted
                continue
            place = (part.partition, part.session_id, after, part.until, limit)
            rows = tuple(map(row_of, await fetch(self._reads, statement, *place)))
            if deltas and (not rows or rows[-1].seq - after != len(rows)):
                raise LogDamaged(
                    f"session {part.session_id}: an event behind seq {after} is missing"
                )
            if rows:
                yield rows
            if len(rows) < limit:
                return
            after = rows[-1].seq
            size = sum(len(row.data) for row in rows) // len(rows)
            limit = max(10, min(READ_ROWS, BATCH_BYTES // (size + 1)))


def _wanted(rows: tuple[Recorded, ...], deltas: bool) -> tuple[Recorded, ...]:
    return rows if deltas else tuple(row for row in rows if row.type not in DELTA_TYPES)


def _moved(start: Head, last: Recorded) -> Head:
    return Head(
        partition=start.partition,
        owner=start.owner,
        fork=start.fork,
        position=last.position,
        seq=last.seq,
        hash=last.hash,
    )


async def _hand_on(
    heads: Heads, tail: Tail, wake_ups: WakeUps | None, slices: list[tuple[Recorded, ...]]
) -> None:
    heads.advance(rows[-1] for rows in slices)
    tail.committed(slices)
    if wake_ups is not None:
        last = slices[-1][-1]
        await wake_ups.announce(last.partition, last.position)


async def _set_up(dsn: str, partitions: int, allow_unsafe_durability: bool) -> tuple[str, int]:
    """Check the server and make what partitions are missing; gives the log's id and their number."""
    connection = await connect(dsn)
    try:
        await check_server(connection, allow_unsafe_durability=allow_unsafe_durability)
        log_id = str(await connection.fetchval(statements.LOG_ID))
        async with connection.transaction():
            await connection.execute(statements.LOCK_PARTITIONS)
            for number in range(partitions):
                await connection.execute(statements.ENSURE_PARTITION, number)
            count: int = await connection.fetchval(statements.COUNT_PARTITIONS)
    finally:
        connection.terminate()
    return log_id, count


@asynccontextmanager
async def _running(owned: Sequence[Writer | Tail]) -> AsyncGenerator[None, None]:
    """The tasks of writers and tails, ended with the block.

    Not a TaskGroup: it would wrap what the block raises. A task that fails answers all that wait for
    it, and what it raised is raised when the block ends.
    """
    tasks = [asyncio.create_task(one.run()) for one in owned]
    for task in tasks:
        task.add_done_callback(_report)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("log_task_failed", error=type(error).__name__)


@asynccontextmanager
async def _woken(wake_ups: WakeUps | None, tails: Sequence[Tail]) -> AsyncGenerator[None, None]:
    """Announcements of other nodes go to the tails, while the block runs."""
    if wake_ups is None:
        yield
        return

    def announced(partition: int, position: int) -> None:
        if 0 <= partition < len(tails):
            tails[partition].announced(position)

    unsubscribe = wake_ups.subscribe(announced)
    try:
        yield
    finally:
        unsubscribe()
