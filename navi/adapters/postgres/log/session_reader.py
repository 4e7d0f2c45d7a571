"""Read sessions, forks with their origins: from recent rows in memory, and from Postgres."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import asyncpg
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.postgres.connect import QUERY_SECONDS, ReadPool, fetch
from navi.adapters.postgres.log import statements
from navi.adapters.postgres.log.erasures import Erasures
from navi.adapters.postgres.log.heads import ForkPoint, Head
from navi.adapters.postgres.log.pages import row_of
from navi.adapters.postgres.log.tail import Tail
from navi.domain.vocabulary.errors import LogDamaged, LogUnavailable
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import Origin, UserMessageReceived
from navi.domain.vocabulary.ids import MessageId, Owner, SessionId, is_uuid
from navi.ports.event_log import ALL_TYPES, Recorded, Selection, Types
from navi.ports.log_admin import SessionHead

READ_ROWS = 1000  # a batch of a session's rows
BATCH_BYTES = 8 * 1024 * 1024  # what a batch of a session's rows should not exceed, about
NO_END = 2**62  # a seq that no session reaches
SESSIONS_AT_ONCE = 1000
FIRST_UUID = "00000000-0000-0000-0000-000000000000"  # which no session has
FIRST_READ_ROWS = 200  # before it is known how large the rows are


class SessionPart(Struct, frozen=True, kw_only=True):
    """A stretch of a session's events that stand under one id: its own, or a fork's origin's."""

    partition: int
    session_id: SessionId
    after: int
    until: int


class SessionReader:
    """Reads sessions from Postgres, for the methods of ``LogErasure`` of the same names."""

    def __init__(self, pool: ReadPool, tails: Sequence[Tail], erasures: Erasures) -> None:
        self._pool = pool
        self._tails = tails
        self._erasures = erasures

    def on(self, pool: ReadPool) -> "SessionReader":
        """The same reader on other connections."""
        return SessionReader(pool, self._tails, self._erasures)

    async def head(self, session_id: SessionId) -> Head | None:
        """The session's head as Postgres has it now."""
        if not is_uuid(session_id):
            return None
        rows = await fetch(self._pool, statements.HEAD_OF_SESSION, session_id)
        if not rows:
            return None
        row = rows[0]
        self._erasures.seen(row["partition"], row["erasures"])
        fork = None
        if row["forked_from"] is not None:
            fork = ForkPoint(
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

    async def sessions(self, session_ids: Sequence[SessionId] | None) -> Sequence[SessionHead]:
        rows: Sequence[asyncpg.Record]
        if session_ids is None:
            rows = await self._all_sessions()
        else:
            wanted = [session_id for session_id in session_ids if is_uuid(session_id)]
            rows = await fetch(self._pool, statements.SESSIONS, wanted)
        return tuple(
            SessionHead(
                session_id=SessionId(row["session_id"]),
                owner=Owner(row["owner"]),
                forked_from=None
                if row["forked_from"] is None
                else Origin(session_id=SessionId(row["forked_from"]), seq=row["base_seq"]),
                base_hash=row["base_hash"],
                seq=row["seq"],
                hash=row["hash"],
            )
            for row in rows
        )

    async def _all_sessions(self) -> list[asyncpg.Record]:
        """A part at a time: in a log that was not read for long each head is a look at the disk."""
        rows: list[asyncpg.Record] = []
        after = FIRST_UUID
        while part := await fetch(self._pool, statements.NEXT_SESSIONS, after, SESSIONS_AT_ONCE):
            rows += part
            after = part[-1]["session_id"]
        return rows

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        head = await self.head(session_id)
        if head is None:
            return
        end = head.seq if until is None else min(until, head.seq)
        for part in await self._parts(session_id, head, after=after, until=end):
            async for rows in self._read_part(part, types):
                yield rows

    async def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        head = await self.head(session_id)
        if head is None:
            return
        after, types, left = selection.after, selection.types, selection.limit
        end = min(until, head.seq)
        if selection.before is not None:
            end = min(end, selection.before - 1)
        parts = await self._parts(session_id, head, after=after, until=end)
        if selection.before is not None and left is not None:
            parts = await self._last_of(parts, types, count=left)
        for part in parts:
            async with aclosing(self._read_part(part, types)) as batches:
                async for rows in batches:
                    wanted = rows[:left]
                    yield wanted
                    if left is not None:
                        left -= len(wanted)
                        if left == 0:
                            return

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId, *, known: Head | None = None
    ) -> tuple[int, UserMessageReceived] | None:
        """As ``EventLog.find_receipt``.

        Args:
            known: a head of the session, however old: where its events stand never changes.
        """
        head = known or await self.head(session_id)
        if head is None:
            return None
        for part in await self._parts(session_id, head, after=0, until=NO_END):
            place = (part.partition, part.session_id, message_id, part.until)
            for row in await fetch(self._pool, statements.RECEIPT, *place):
                event = decode_data(UserMessageReceived.TYPE, row["v"], row["data"])
                if isinstance(event, UserMessageReceived):
                    return row["seq"], event
        return None

    async def stored(
        self, partition: int, session_id: SessionId, *, after: int, count: int
    ) -> tuple[Recorded, ...]:
        """At most ``count`` of a session's own rows behind a seq."""
        place = (partition, session_id, after, after + count, count)
        return tuple(map(row_of, await fetch(self._pool, statements.SESSION_ROWS, *place)))

    async def erase(
        self, partition: int, session_id: SessionId, payloads: Mapping[int, bytes]
    ) -> None:
        """As ``LogErasure.erase``; in memory nothing of the old payloads is left, here or elsewhere.

        This process forgets at once, others with their next look at the partition.
        """
        values = (partition, session_id, list(payloads), list(payloads.values()))
        await fetch(self._pool, statements.ERASE, *values, seconds=QUERY_SECONDS)
        await self.head(session_id)  # which tells of the erasure

    async def forks_of(self, session_id: SessionId) -> tuple[SessionId, ...]:
        rows = await fetch(self._pool, statements.FORKS_OF, session_id)
        return tuple(SessionId(row["session_id"]) for row in rows)

    async def sessions_of(self, owner: Owner) -> tuple[SessionId, ...]:
        rows = await fetch(self._pool, statements.SESSIONS_OF, owner)
        return tuple(SessionId(row["session_id"]) for row in rows)

    def tail(self, partition: int) -> Tail:
        """The live end of a partition.

        Raises:
            LogUnavailable: the partition is younger than this process.
        """
        if not 0 <= partition < len(self._tails):
            raise LogUnavailable(f"partition {partition} was added after this process was started")
        return self._tails[partition]

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
            here = await self.head(session_id)
        return parts[::-1]

    async def _last_of(
        self, parts: Sequence[SessionPart], types: Types, *, count: int
    ) -> list[SessionPart]:
        """The ends of the parts in which the last ``count`` events of some types are."""
        ends: list[SessionPart] = []
        for part in reversed(parts):
            place = (part.partition, part.session_id, part.after, part.until, count)
            statement = statements.LAST_OF_TYPES
            [found] = await fetch(self._pool, statement, *place, *_parameters(types))
            if found["rows"]:
                ends.append(replace(part, after=found["first"] - 1))
            count -= found["rows"]
            if count == 0:
                break
        return ends[::-1]

    async def _read_part(
        self, part: SessionPart, types: Types
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        is_all = types == ALL_TYPES
        statement = statements.SESSION_ROWS if is_all else statements.SESSION_OF_TYPES
        filter_ = () if is_all else _parameters(types)
        after, limit = part.after, FIRST_READ_ROWS
        while after < part.until:
            recent = self.tail(part.partition).ring.session(part.session_id, after=after)
            if recent:
                recent = tuple(row for row in recent[:READ_ROWS] if row.seq <= part.until)
                after = recent[-1].seq
                if wanted := tuple(row for row in recent if row.type in types):
                    yield wanted
                continue
            place = (part.partition, part.session_id, after, part.until, limit)
            rows = tuple(map(row_of, await fetch(self._pool, statement, *place, *filter_)))
            if is_all and (not rows or rows[-1].seq - after != len(rows)):
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


def _parameters(types: Types) -> tuple[list[str] | None, list[str]]:
    return None if types.only is None else list(types.only), list(types.but)
