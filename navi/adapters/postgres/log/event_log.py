"""The event log in Postgres: the only truth."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial

from navi.adapters.log_rows import encode_events, hashes_of
from navi.adapters.postgres.connect import ReadPool, connect, open_pool
from navi.adapters.postgres.connection_budget import FULL
from navi.adapters.postgres.log.erasures import Erasures
from navi.adapters.postgres.log.heads import ForkPoint, Head, Heads
from navi.adapters.postgres.log.owners_log import OwnersLog
from navi.adapters.postgres.log.pages import Pages
from navi.adapters.postgres.log.partitions import running, set_up, woken
from navi.adapters.postgres.log.restore import restore
from navi.adapters.postgres.log.session_reader import READ_ROWS, SessionReader
from navi.adapters.postgres.log.tail import Tail
from navi.adapters.postgres.log.writer import PLANNED_ONCE, Slice, Writer
from navi.domain.log.export import ExportedEvent
from navi.domain.log.hash_chain import GENESIS
from navi.domain.vocabulary.errors import ConcurrentAppend, NotFound
from navi.domain.vocabulary.events import SessionCreated, UserMessageReceived
from navi.domain.vocabulary.ids import MessageId, Owner, SessionId
from navi.ports.event_log import ALL_TYPES, FACTS, Append, Recorded, Selection, Types
from navi.ports.log_admin import Pruned, RestoredSession, SessionHead
from navi.ports.log_partitions import Page
from navi.ports.wake_ups import WakeUps

# Every read of the log goes along one index. A planner that has no statistics yet, as in a new database,
# would rather intersect two of them as bitmaps, one of the whole partition: the head of a session then
# takes as long as the log is (measured: 8 ms at 70,000 events instead of 0.2).
ALONG_ONE_INDEX = {"enable_bitmapscan": "off"}
MAX_REFUSALS = 3  # a slice is offered again only where this process' picture of the session was old


class PostgresEventLog:
    """``EventLog`` on Postgres; made by ``open``, which owns its connections and tasks."""

    def __init__(
        self,
        *,
        dsn: str,
        log_id: str,
        reader: SessionReader,
        pages: Pages,
        new_sessions_over: int,
        writers: Sequence[Writer],
        heads: Heads,
        append_deadline: float,
    ) -> None:
        self._dsn = dsn
        self._log_id = log_id
        self._reader = reader
        self._pages = pages
        self._new_sessions_over = new_sessions_over
        self._writers = writers
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
        read_connections: int = FULL,
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
            open_pool(dsn, size=read_connections, planner=ALONG_ONE_INDEX) as reads,
            open_pool(dsn, size=2, planner=ALONG_ONE_INDEX) as tail_reads,
        ):
            log_id, count = await set_up(
                dsn, partitions=partitions, allow_unsafe_durability=allow_unsafe_durability
            )
            heads = Heads()
            erasures = Erasures()
            pages = Pages(tail_reads, erasures)
            tails = [
                Tail(
                    number,
                    position=await pages.head(number),
                    pages=pages,
                    erasures=erasures,
                    read=heads.advance,
                )
                for number in range(count)
            ]
            writers = [
                Writer(
                    number,
                    connect=partial(connect, dsn, planner=PLANNED_ONCE),
                    committed=partial(_hand_on, heads, tails[number], wake_ups),
                )
                for number in range(count)
            ]
            async with running([*writers, *tails]), woken(wake_ups, tails):
                yield cls(
                    dsn=dsn,
                    log_id=log_id,
                    reader=SessionReader(reads, tails, erasures),
                    pages=Pages(reads, erasures),
                    new_sessions_over=partitions,
                    writers=writers,
                    heads=heads,
                    append_deadline=append_deadline,
                )

    @property
    def log_id(self) -> str:
        """Which log this is: a UUID made with the database."""
        return self._log_id

    @property
    def partitions(self) -> int:
        return len(self._writers)

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if not batch.events:
            return ()
        events = encode_events(batch)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._append_deadline
        head = self._heads.get(batch.session_id)
        if head is None and batch.expected > 0:
            head = await self._reader.head(batch.session_id)
        for _ in range(MAX_REFUSALS):
            new = await self._beginning(batch) if head is None else None
            start = head or new
            if start is not None and start.seq == batch.expected:
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
                    answer=loop.create_future(),
                )
                try:
                    rows = await self._writer(start.partition).submit(slice_)
                except BaseException:
                    # Stored or not: the next append looks.
                    self._heads.drop(batch.session_id)
                    raise
                if rows is not None:
                    if self._heads.get(batch.session_id) is None:  # new, or not kept until now
                        self._heads.put(batch.session_id, _moved(start, rows[-1]))
                    return rows
            before, head = head, await self._reader.head(batch.session_id)
            if head is None or head == before or head.seq != batch.expected:
                break
        return await self._first_answer(batch, head)

    async def head(self, session_id: SessionId) -> int:
        head = await self._reader.head(session_id)
        return 0 if head is None else head.seq

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        head = self._heads.get(session_id) or await self._reader.head(session_id)
        return None if head is None else head.owner

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        return self._reader.read(session_id, after=after, until=until, types=types)

    def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        return self._reader.select(session_id, selection, until=until)

    async def sessions(
        self, session_ids: Sequence[SessionId] | None = None
    ) -> Sequence[SessionHead]:
        return await self._reader.sessions(session_ids)

    async def restore(
        self,
        sessions: Sequence[RestoredSession],
        events: AsyncGenerator[Sequence[ExportedEvent], None],
    ) -> int:
        # Over all the partitions that there are: a command opens the log without making any.
        places = len(self._writers)
        return await restore(
            self._dsn,
            sessions,
            events,
            place=lambda session_id: zlib.crc32(session_id.encode()) % places,
        )

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        known = self._heads.get(session_id)
        return await self._reader.find_receipt(session_id, message_id, known=known)

    async def erase(self, session_id: SessionId, payloads: Mapping[int, bytes]) -> None:
        head = await self._reader.head(session_id)
        if head is None or not payloads:
            return
        await self._reader.erase(head.partition, session_id, payloads)

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        return await self._pages.find(partition, after=after, limit=limit, owner=owner, parts=parts)

    async def forks_of(self, session_id: SessionId) -> tuple[SessionId, ...]:
        return await self._reader.forks_of(session_id)

    async def sessions_of(self, owner: Owner) -> tuple[SessionId, ...]:
        return await self._reader.sessions_of(owner)

    async def texts_in_use(
        self, hashes: Sequence[str], *, besides: Collection[SessionId]
    ) -> frozenset[str]:
        return await self._pages.texts_in_use(hashes, besides=besides)

    async def prune(
        self,
        partition: int,
        *,
        after: int,
        limit: int,
        before: datetime,
        session_id: SessionId | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        return await self._pages.prune(
            partition,
            after=after,
            limit=limit,
            before=before,
            session_id=session_id,
            dry_run=dry_run,
        )

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        ring = self._reader.tail(partition).ring
        if ring.holds(after + 1):
            # Who reads up to the head must not miss what another node committed just now, and nobody
            # is to read from memory what another process erased: that empties the ring.
            head = await self._pages.head(partition)
            if recent := ring.positions(after=after, limit=limit):
                rows = recent if deltas else tuple(row for row in recent if row.type in FACTS)
                reached = recent[-1].position
                return Page(rows=rows, reached=reached, head=max(head, reached))
        return await self._pages.read(partition, after=after, limit=limit, deltas=deltas)

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the port's
        return await self._reader.tail(partition).wait_beyond(position, timeout=timeout)

    def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        return self.watch_by(self._reader, session_id, after=after)

    def seen_by(self, owner: Owner, reads: ReadPool) -> OwnersLog:
        """The log as an owner sees it; ``reads`` shows the owner's rows."""
        return OwnersLog(self, self._reader.on(reads), owner)

    async def watch_by(
        self, reader: SessionReader, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """As ``watch``, with what lies behind read by ``reader``."""
        head = self._heads.get(session_id) or await self._reader.head(session_id)
        tail = self._reader.tail(self._place_of(session_id) if head is None else head.partition)
        reached = after
        # Whatever is delivered from here on comes to the watcher; what was before, the log has.
        with tail.watchers.watching(session_id) as watcher:
            while True:
                recent = tail.ring.session(session_id, after=reached)
                if recent is None:
                    async for rows in reader.read(session_id, after=reached):
                        reached = rows[-1].seq
                        yield rows
                elif recent:
                    reached = recent[-1].seq
                    for start in range(0, len(recent), READ_ROWS):
                        yield recent[start : start + READ_ROWS]
                while (live := await watcher.take()) is not None:
                    news = live
                    if live and live[0].seq <= reached:
                        news = tuple(row for row in live if row.seq > reached)
                    if not news:
                        continue
                    if news[0].seq != reached + 1:
                        break  # the log knows what lies between
                    reached = news[-1].seq
                    yield news

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
                async for part in self._reader.read(
                    origin.session_id, after=origin.seq - 1, until=origin.seq
                )
                for row in part
            ]
            if not rows:
                raise NotFound(f"session {origin.session_id} has no event {origin.seq}")
            fork = ForkPoint(session_id=origin.session_id, seq=origin.seq, hash=rows[0].hash)
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
                stored = await self._reader.stored(
                    head.partition,
                    batch.session_id,
                    after=batch.expected,
                    count=len(batch.events),
                )
                if [row.id for row in stored] == [event.id for event in batch.events]:
                    return stored
        raise ConcurrentAppend(batch.session_id, batch.expected)

    def _place_of(self, session_id: SessionId) -> int:
        """The partition of a session that is not in the registry yet."""
        return zlib.crc32(session_id.encode()) % self._new_sessions_over

    def _writer(self, partition: int) -> Writer:
        self._reader.tail(partition)
        return self._writers[partition]


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
