"""Read models in Postgres: generic tables, keyed by projection, version and session."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime

import asyncpg

from navi.adapters.postgres.connect import Pool, fetch
from navi.adapters.postgres.projection_batch import PostgresProjectionBatch
from navi.adapters.postgres.transaction import answering, transaction
from navi.domain.ids import Owner, SessionId
from navi.ports import Parked, ProjectionBatch, StoredState

_LOCK_CHECKPOINT = """
    select position from navi.checkpoint
    where projection = $1 and version = $2 and partition = $3
    for update skip locked"""

# Does nothing where another process holds the row, and waits only where one is making it just now.
_MAKE_CHECKPOINT = """
    insert into navi.checkpoint (projection, version, partition) values ($1, $2, $3)
    on conflict do nothing
    returning position"""

# One statement sees one moment: the state and its rows belong together.
_LOAD = """
    select s.seq, s.state, r.key, r.hidden_by, r.row
    from navi.read_state s
    left join lateral (
      (select v.key, v.hidden_by, v.row from navi.read_row v
       where v.projection = $1 and v.version = $2 and v.session_id = $3 and v.hidden_by is null
         and v.key > coalesce($4::bigint, -9223372036854775808)
       order by v.key limit $5)
      union all
      (select h.key, h.hidden_by, h.row from navi.read_row h
       where $6 and h.projection = $1 and h.version = $2 and h.session_id = $3
         and h.hidden_by is not null)
    ) r on true
    where s.projection = $1 and s.version = $2 and s.session_id = $3
    order by r.key"""

_LAST_ROW = """
    select key, row from navi.read_row
    where projection = $1 and version = $2 and session_id = $3 and key <= $4 and hidden_by is null
    order by key desc limit 1"""

_POSITIONS = """
    select partition, position from navi.checkpoint where projection = $1 and version = $2"""

_LIST = """
    select session_id::text, seq, state from navi.read_state
    where projection = $1 and version = $2 and owner = $3 and last_active is not null
    order by pinned desc, last_active desc, session_id desc
    limit $4"""

_LIST_AFTER = """
    select session_id::text, seq, state from navi.read_state
    where projection = $1 and version = $2 and owner = $3 and last_active is not null
      and (pinned, last_active, session_id) < ($5::boolean, $6::timestamptz, $7::uuid)
    order by pinned desc, last_active desc, session_id desc
    limit $4"""

_UNFINISHED = """
    select session_id::text, seq, state from navi.read_state
    where projection = $1 and version = $2 and unfinished
    order by session_id"""

_PARKED = """
    select session_id::text, seq, error from navi.parked
    where projection = $1 and version = $2
    order by session_id"""

_RESET = (
    """
    select from navi.checkpoint where projection = $1 and version = $2
    order by partition for update""",
    "delete from navi.read_state where projection = $1 and version = $2",
    "delete from navi.read_row where projection = $1 and version = $2",
    "delete from navi.parked where projection = $1 and version = $2",
    "update navi.checkpoint set position = 0 where projection = $1 and version = $2",
)


class PostgresReadModels:
    """``ReadModels`` in Postgres; the pool is the caller's, and its owner closes it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def begin(
        self, projection: str, version: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        return self._begin(projection, version, partition)

    @asynccontextmanager
    async def _begin(
        self, projection: str, version: int, partition: int
    ) -> AsyncGenerator[ProjectionBatch | None, None]:
        checkpoint = (projection, version, partition)
        async with transaction(self._pool) as connection:
            with answering():
                position = await connection.fetchval(_LOCK_CHECKPOINT, *checkpoint)
                if position is None:
                    position = await connection.fetchval(_MAKE_CHECKPOINT, *checkpoint)
            if position is None:
                yield None
            else:
                yield PostgresProjectionBatch(connection, *checkpoint, position=position)

    async def load(
        self,
        projection: str,
        version: int,
        session_id: SessionId,
        *,
        rows_after: int | None = None,
        rows_limit: int | None = None,
        hidden: bool = False,
    ) -> StoredState | None:
        found = await fetch(
            self._pool, _LOAD, projection, version, session_id, rows_after, rows_limit, hidden
        )
        if not found:
            return None
        rows = [row for row in found if row["key"] is not None]
        return StoredState(
            seq=found[0]["seq"],
            state=found[0]["state"],
            rows=tuple((row["key"], row["row"]) for row in rows if row["hidden_by"] is None),
            hidden=tuple(
                (row["key"], row["hidden_by"], row["row"])
                for row in rows
                if row["hidden_by"] is not None
            ),
        )

    async def last_row(
        self, projection: str, version: int, session_id: SessionId, *, until: int
    ) -> tuple[int, bytes] | None:
        rows = await fetch(self._pool, _LAST_ROW, projection, version, session_id, until)
        return (rows[0]["key"], rows[0]["row"]) if rows else None

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        rows = await fetch(self._pool, _POSITIONS, projection, version)
        return {row["partition"]: row["position"] for row in rows}

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        wanted = (projection, version, owner, limit)
        if after is None:
            return _listed(await fetch(self._pool, _LIST, *wanted))
        return _listed(await fetch(self._pool, _LIST_AFTER, *wanted, *after))

    async def unfinished(
        self, projection: str, version: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        return _listed(await fetch(self._pool, _UNFINISHED, projection, version))

    async def parked(self, projection: str, version: int) -> Sequence[Parked]:
        rows = await fetch(self._pool, _PARKED, projection, version)
        return tuple(
            Parked(session_id=SessionId(row["session_id"]), seq=row["seq"], error=row["error"])
            for row in rows
        )

    async def reset(self, projection: str, version: int) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                for statement in _RESET:
                    await connection.execute(statement, projection, version)


def _listed(rows: Sequence[asyncpg.Record]) -> tuple[tuple[SessionId, StoredState], ...]:
    return tuple(
        (SessionId(row["session_id"]), StoredState(seq=row["seq"], state=row["state"]))
        for row in rows
    )
