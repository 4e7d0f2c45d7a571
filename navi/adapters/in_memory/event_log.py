"""The event log in memory: same rules, same rows, gone with the process."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec.structs import asdict, replace

from navi.adapters.log_rows import encode_events, hashes_of, recorded
from navi.domain.log.erasure import pruned
from navi.domain.log.export import ExportedEvent
from navi.domain.log.hash_chain import GENESIS
from navi.domain.vocabulary.errors import AlreadyThere, ConcurrentAppend, NotFound
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    ContentErased,
    ImageShown,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    Origin,
    SessionCreated,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import MessageId, Owner, SessionId
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Selection, Types
from navi.ports.log_admin import Pruned, RestoredSession, SessionHead
from navi.ports.log_partitions import Page

BATCH_ROWS = 1000


class InMemoryEventLog:
    """``EventLog`` in lists."""

    def __init__(self, *, partitions: int = 1) -> None:
        self._partitions: list[list[Recorded]] = [[] for _ in range(partitions)]
        self._sessions: dict[SessionId, list[Recorded]] = {}  # a fork's begins with its origin's
        self._origins: dict[SessionId, Origin] = {}
        self._grown = asyncio.Event()  # replaced at each append

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if not batch.events:
            return ()
        events = encode_events(batch)
        known = self._sessions.get(batch.session_id)
        rows = self._beginning(batch) if known is None else known
        if len(rows) != batch.expected:
            there = tuple(rows[batch.expected : batch.expected + len(events)])
            if [row.id for row in there] == [event.id for event in events]:
                return there
            raise ConcurrentAppend(batch.session_id, batch.expected)
        place = zlib.crc32(batch.session_id.encode()) % len(self._partitions)
        partition = self._partitions[place]
        stored = recorded(
            events,
            hashes_of(
                events,
                session_id=batch.session_id,
                expected=batch.expected,
                previous=rows[-1].hash if rows else GENESIS,
            ),
            partition=place,
            position=len(partition) + 1,
            owner=batch.owner if known is None else known[-1].owner,
            session_id=batch.session_id,
            expected=batch.expected,
        )
        partition.extend(stored)
        rows.extend(stored)
        self._sessions[batch.session_id] = rows
        first = batch.events[0].event
        origin = first.forked_from if isinstance(first, SessionCreated) else None
        if known is None and origin is not None and origin.seq > 0:  # at 0 it shares nothing
            self._origins[batch.session_id] = origin
        self._grown.set()
        self._grown = asyncio.Event()
        return stored

    async def head(self, session_id: SessionId) -> int:
        return len(self._sessions.get(session_id, ()))

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        rows = self._sessions.get(session_id)
        return rows[-1].owner if rows else None

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        rows = self._sessions.get(session_id, [])
        end = len(rows) if until is None else min(until, len(rows))
        for start in range(after, end, BATCH_ROWS):
            batch = rows[start : min(start + BATCH_ROWS, end)]
            if wanted := tuple(row for row in batch if row.type in types):
                yield wanted

    async def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        before, limit = selection.before, selection.limit
        end = until if before is None else min(until, before - 1)
        wanted: list[Recorded] = []
        async for rows in self.read(session_id, after=selection.after, until=end):
            wanted.extend(row for row in rows if row.type in selection.types)
        if limit is not None:
            wanted = wanted[:limit] if before is None else wanted[-limit:]
        for start in range(0, len(wanted), BATCH_ROWS):
            yield tuple(wanted[start : start + BATCH_ROWS])

    async def sessions(
        self, session_ids: Sequence[SessionId] | None = None
    ) -> Sequence[SessionHead]:
        wanted = self._sessions if session_ids is None else set(session_ids)
        return tuple(
            self._head_of(session_id, rows)
            for session_id, rows in sorted(self._sessions.items())
            if session_id in wanted
        )

    async def restore(
        self,
        sessions: Sequence[RestoredSession],
        events: AsyncGenerator[Sequence[ExportedEvent], None],
    ) -> int:
        batches = [tuple(batch) async for batch in events]
        for session in sessions:
            if session.session_id in self._sessions:
                raise AlreadyThere(session.session_id)
        for session in sessions:
            self._sessions[session.session_id] = []
            if (origin := session.forked_from) is not None:
                self._origins[session.session_id] = origin
        owners = {session.session_id: session.owner for session in sessions}
        for event in (event for batch in batches for event in batch):
            self._restore(event, owners[event.session_id])
        self._grown.set()
        self._grown = asyncio.Event()
        return sum(map(len, batches))

    def _restore(self, event: ExportedEvent, owner: Owner) -> None:
        rows = self._sessions[event.session_id]
        if not rows and (origin := self._origins.get(event.session_id)) is not None:
            rows.extend(self._sessions[origin.session_id][: origin.seq])
        place = zlib.crc32(event.session_id.encode()) % len(self._partitions)
        partition = self._partitions[place]
        row = Recorded(partition=place, position=len(partition) + 1, owner=owner, **asdict(event))
        partition.append(row)
        rows.append(row)

    def _head_of(self, session_id: SessionId, rows: list[Recorded]) -> SessionHead:
        origin = self._origins.get(session_id)
        return SessionHead(
            session_id=session_id,
            owner=rows[-1].owner,
            forked_from=origin,
            base_hash=GENESIS if origin is None else rows[origin.seq - 1].hash,
            seq=rows[-1].seq,
            hash=rows[-1].hash,
        )

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        for row in self._sessions.get(session_id, ()):
            if row.type == UserMessageReceived.TYPE:
                event = row.envelope.event
                if isinstance(event, UserMessageReceived) and event.message_id == message_id:
                    return row.seq, event
        return None

    async def erase(self, session_id: SessionId, payloads: Mapping[int, bytes]) -> None:
        for row in self._sessions.get(session_id, []):
            if row.seq in payloads and row.session_id == session_id:
                self._replace(row, payloads[row.seq])

    def _replace(self, row: Recorded, data: bytes) -> None:
        """Put another payload in place of a row's, in its session and in all forks that share it."""
        new = replace(row, data=data, salt=None)
        self._partitions[row.partition][row.position - 1] = new
        for rows in self._sessions.values():
            if len(rows) >= row.seq and rows[row.seq - 1].id == row.id:
                rows[row.seq - 1] = new

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        page = await self.read_all(partition, after=after, limit=limit, deltas=False)
        rows = tuple(
            row
            for row in page.rows
            if row.owner == owner
            and (
                row.salt is None
                or row.type == ContentErased.TYPE
                or any(part.encode() in row.data for part in parts)
            )
        )
        return replace(page, rows=rows)

    async def forks_of(self, session_id: SessionId) -> tuple[SessionId, ...]:
        return tuple(
            row.session_id
            for row in self._rows_of(SessionCreated.TYPE)
            if isinstance(event := row.envelope.event, SessionCreated)
            and event.forked_from is not None
            and event.forked_from.session_id == session_id
        )

    async def sessions_of(self, owner: Owner) -> tuple[SessionId, ...]:
        return tuple(sorted(id_ for id_, rows in self._sessions.items() if rows[-1].owner == owner))

    async def texts_in_use(
        self, hashes: Sequence[str], *, besides: Collection[SessionId]
    ) -> frozenset[str]:
        return frozenset(
            hash_
            for type_ in (ModelCalled.TYPE, ImageShown.TYPE)
            for row in self._rows_of(type_)
            if row.session_id not in besides
            for hash_ in hashes
            if hash_.encode() in row.data
        )

    def _rows_of(self, type_: str) -> Iterator[Recorded]:
        return (row for rows in self._partitions for row in rows if row.type == type_)

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
        rows = self._partitions[partition]
        ended = {
            (row.session_id, event.call_id)
            for row in rows
            if isinstance(
                event := row.envelope.event, ModelReplied | ModelCallFailed | ToolFinished
            )
        }
        chosen = [
            (row, event.call_id)
            for row in rows[after : after + limit]
            if isinstance(event := row.envelope.event, ThinkingDelta | TextDelta | ToolOutputDelta)
            and (row.session_id, event.call_id) in ended
            and row.at < before
            and row.salt is not None
            and session_id in (None, row.session_id)
        ]
        if not dry_run:
            for row, call_id in chosen:
                self._replace(row, pruned(call_id))
        return Pruned(
            reached=min(after + limit, len(rows)),
            head=len(rows),
            deltas=len(chosen),
            bytes=sum(len(row.data) for row, _ in chosen),
        )

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        rows = self._partitions[partition]
        looked_at = rows[after : after + limit]
        return Page(
            rows=tuple(row for row in looked_at if deltas or row.type not in DELTA_TYPES),
            reached=min(after + limit, len(rows)),
            head=len(rows),
        )

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the port's
        try:
            async with asyncio.timeout(timeout):
                while len(self._partitions[partition]) <= position:
                    await self._grown.wait()
        except TimeoutError:
            return False
        return True

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        while True:
            grown = self._grown
            async for rows in self.read(session_id, after=after):
                after = rows[-1].seq
                yield rows
            await grown.wait()

    def _beginning(self, batch: Append) -> list[Recorded]:
        """The rows that a new session begins with: none, or those it shares with its origin."""
        first = batch.events[0].event
        origin = first.forked_from if isinstance(first, SessionCreated) else None
        if origin is None or batch.expected == 0 or origin.seq != batch.expected:
            return []
        shared = self._sessions.get(origin.session_id, [])[: origin.seq]
        if len(shared) < origin.seq:
            raise NotFound(f"session {origin.session_id} has no event {origin.seq}")
        return shared
