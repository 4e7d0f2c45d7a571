"""Reading a partition by position, dense: a missing position is an alarm, never passed over."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from datetime import datetime

import asyncpg

from navi.adapters.postgres.connect import QUERY_SECONDS, Pool, fetch
from navi.adapters.postgres.log import statements
from navi.adapters.postgres.log.erasures import Erasures
from navi.domain.vocabulary.errors import LogDamaged, NotFound
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import Pruned
from navi.ports.log_partitions import Page

MAX_ROWS = 1000  # a page, whatever the caller asks for
MAX_BYTES = 8 * 1024 * 1024  # of payloads in a page, or one event: 1,000 rows may weigh 700 MB
# Of which a statement looks for a few that no index knows: some ten milliseconds, and with rows of a kilobyte
# that no cache has 10 MB from the disk.
STEP_ROWS = 10_000


class Pages:
    """Pages of the partitions of one database, for the methods of ``LogErasure`` of the same names."""

    def __init__(self, pool: Pool, erasures: Erasures) -> None:
        self._pool = pool
        self._erasures = erasures

    async def head(self, partition: int) -> int:
        """The last position of a partition, 0 where it is empty.

        Raises:
            NotFound: there is no such partition.
            LogUnavailable: Postgres does not answer.
        """
        rows = await fetch(self._pool, statements.HEAD_OF_PARTITION, partition)
        return self._seen(partition, rows)["head"]

    async def read(self, partition: int, *, after: int, limit: int, deltas: bool = True) -> Page:
        """As ``LogPartitions.read_all``.

        Raises:
            LogDamaged: a position is missing.
            LogUnavailable: Postgres does not answer.
        """
        until = after + min(limit, MAX_ROWS)
        looked = await fetch(
            self._pool, statements.HEAD_AND_FULL_AT, partition, after, until, MAX_BYTES
        )
        seen = self._seen(partition, looked)
        head, full_at = seen["head"], seen["full_at"]
        until = min(until, head)
        if until <= after:
            return Page(rows=(), reached=min(after, head), head=head)
        if full_at is not None:
            until = max(after + 1, min(until, full_at - 1))
        # Positions are in order of commits, so all up to the head are visible to what comes later.
        place = (partition, after, until)
        if deltas:
            rows = _registered(await fetch(self._pool, statements.POSITIONS, *place))
            there = len(rows)
        else:
            rows = _registered(await fetch(self._pool, statements.POSITIONS_OF_FACTS, *place))
            counted = await fetch(self._pool, statements.COUNT_POSITIONS, *place)
            there = counted[0]["rows"]
        if there != until - after:
            raise LogDamaged(
                f"partition {partition}: {until - after - there} positions are missing "
                f"between {after} and {until}"
            )
        return Page(rows=tuple(map(row_of, rows)), reached=until, head=head)

    def _seen(self, partition: int, rows: Sequence[asyncpg.Record]) -> asyncpg.Record:
        """The one row of what was asked of a partition; its erasures are told."""
        if not rows:
            raise NotFound(f"the log has no partition {partition}")
        self._erasures.seen(partition, rows[0]["erasures"])
        return rows[0]

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        head = await self.head(partition)
        until = max(after, min(after + limit, head))
        place = (partition, after, until, owner, parts)
        rows = await fetch(self._pool, statements.FIND, *place, seconds=QUERY_SECONDS)
        return Page(rows=tuple(map(row_of, rows)), reached=until, head=head)

    async def texts_in_use(
        self, hashes: Collection[str], *, besides: Collection[SessionId]
    ) -> frozenset[str]:
        if not hashes:
            return frozenset()
        used: set[str] = set()
        async with aclosing(steps_through(self._pool)) as steps:
            async for place in steps:
                values = (*place, list(besides), list(hashes))
                rows = await fetch(
                    self._pool, statements.TEXTS_IN_USE, *values, seconds=QUERY_SECONDS
                )
                used.update(row["hash"] for row in rows)
        return frozenset(used)

    async def prune(
        self,
        partition: int,
        *,
        after: int,
        limit: int,
        before: datetime,
        session_id: SessionId | None,
        dry_run: bool,
    ) -> Pruned:
        head = await self.head(partition)
        until = min(after + min(limit, MAX_ROWS), head)
        statement = statements.COUNT_PRUNABLE if dry_run else statements.PRUNE
        place = (partition, after, until, before, session_id)
        [row] = await fetch(self._pool, statement, *place, seconds=QUERY_SECONDS)
        if row["deltas"] and not dry_run:
            await self.head(partition)  # which tells of it
        return Pruned(
            reached=max(after, until), head=head, deltas=row["deltas"], bytes=row["bytes"]
        )


async def steps_through(pool: Pool) -> AsyncGenerator[tuple[int, int, int], None]:
    """The whole log as ``(partition, after, until)``, each as much as a statement can look through in its time.

    What was appended while all of it was walked comes last, but for what comes in the moment of that.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    [counted] = await fetch(pool, statements.COUNT_PARTITIONS)
    reached = [0] * counted["partitions"]
    for _ in range(2):  # not till nothing is new: a busy log has no such moment
        heads = [
            (await fetch(pool, statements.HEAD_OF_PARTITION, partition))[0]["head"]
            for partition in range(len(reached))
        ]
        for partition, head in enumerate(heads):
            while (after := reached[partition]) < head:
                reached[partition] = min(after + STEP_ROWS, head)
                yield partition, after, reached[partition]


def _registered(rows: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    """Without those of sessions that the registry has lost: they count as missing."""
    return [row for row in rows if row["owner"] is not None]


def row_of(row: asyncpg.Record) -> Recorded:
    """A row as the statements give it, in the order of COLUMNS."""
    (
        partition,
        position,
        owner,
        session_id,
        seq,
        event_id,
        name,
        v,
        at,
        turn_id,
        subagent_id,
        data,
        salt,
        digest,
        hash_,
    ) = row
    return Recorded(
        partition=partition,
        position=position,
        owner=owner,
        session_id=session_id,
        seq=seq,
        id=event_id,
        type=name,
        v=v,
        at=at,
        turn_id=turn_id,
        subagent_id=subagent_id,
        data=data,
        salt=salt,
        digest=digest,
        hash=hash_,
    )
