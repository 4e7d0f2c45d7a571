"""Read what read models hold: as navi, or as an owner to whom Postgres shows their rows alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import asyncpg

from navi.adapters.postgres.connect import ReadPool, fetch
from navi.adapters.postgres.read_models import search
from navi.domain.reading.search import Question
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_models import Build, NamedRow, SaidRow, StoredState

_BUILDS = """
    select b.projection, b.number, b.version, b.state, c.partition, c.position
    from navi.build b
    left join navi.checkpoint c on c.projection = b.projection and c.version = b.number
    where b.projection = any($1::text[])
    order by b.projection, b.number, c.partition"""

# Every statement looks by itself which build serves, and sees one moment: a state, its rows and the
# build belong together.
_LOAD = """
    select s.seq, s.state, r.key, r.hidden_by, r.row
    from navi.read_state s
    left join lateral (
      (select v.key, v.hidden_by, v.row from navi.read_row v
       where v.projection = $1 and v.version = s.version and v.session_id = $3 and v.hidden_by is null
         and v.key > coalesce($4::bigint, -9223372036854775808)
       order by v.key limit $5)
      union all
      (select h.key, h.hidden_by, h.row from navi.read_row h
       where $6 and h.projection = $1 and h.version = s.version and h.session_id = $3
         and h.hidden_by is not null)
    ) r on true
    where s.projection = $1 and s.version = (
      select number from navi.serving_build where projection = $1 and version = $2) and s.session_id = $3
    order by r.key"""

_LAST_ROW = """
    select key, row from navi.read_row
    where projection = $1 and version = (
      select number from navi.serving_build where projection = $1 and version = $2)
      and session_id = $3 and key <= $4 and hidden_by is null
    order by key desc limit 1"""

_POSITIONS = """
    select partition, position from navi.checkpoint where projection = $1 and version = (
      select number from navi.serving_build where projection = $1 and version = $2)"""

_LIST = """
    select session_id::text, seq, state, pinned, last_active from navi.read_state
    where projection = $1 and version = (
      select number from navi.serving_build where projection = $1 and version = $2) and owner = $3 and last_active is not null
    order by pinned desc, last_active desc, session_id desc
    limit $4"""

_LIST_AFTER = """
    select session_id::text, seq, state, pinned, last_active from navi.read_state
    where projection = $1 and version = (
      select number from navi.serving_build where projection = $1 and version = $2) and owner = $3 and last_active is not null
      and (pinned, last_active, session_id) < ($5::boolean, $6::timestamptz, $7::uuid)
    order by pinned desc, last_active desc, session_id desc
    limit $4"""

# Of all owners: so many of each, along the same index, and the first of those.
_OF_ALL = """
    with recursive whose (owner) as (
      (select s.owner from navi.read_state s
       where s.projection = $1 and s.version = (
         select number from navi.serving_build where projection = $1 and version = $2) and s.last_active is not null
       order by s.owner limit 1)
      union all
      select (select s.owner from navi.read_state s
              where s.projection = $1 and s.version = (
                select number from navi.serving_build where projection = $1 and version = $2)
                and s.last_active is not null and s.owner > whose.owner
              order by s.owner limit 1)
      from whose where whose.owner is not null)
    select listed.session_id, listed.seq, listed.state from whose cross join lateral (of_one) as listed
    where $3::text is null
    order by listed.pinned desc, listed.last_active desc, listed.session_id::uuid desc
    limit $4"""
_LIST_OF_ALL = _OF_ALL.replace("of_one", _LIST.replace("$3", "whose.owner"))
_LIST_OF_ALL_AFTER = _OF_ALL.replace("of_one", _LIST_AFTER.replace("$3", "whose.owner"))

# In order of the ids themselves, as the indexes have them, and not of their text.
_OWING = """
    select s.session_id::text, s.seq, s.state from navi.read_state s
    where s.projection = $1 and s.version = (
      select number from navi.serving_build where projection = $1 and version = $2) and s.owing
      and s.session_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    order by s.session_id limit $4"""
_UNFINISHED = _OWING.replace("s.owing", "s.unfinished")

# The projection by name, and not as a parameter: the index is of its rows alone. "offset 0": along that index, and
# whose the sessions are, one by one, whatever the planner knows of the tables.
_FIND_MARKS = """
    select distinct found.session_id::text, found.mark
    from (
      select r.session_id, r.version, r.row ->> 'mark' as mark from navi.read_row r
      where r.projection = 'conversation' and r.row ->> 'mark' = any($3::text[])
      offset 0) found
    cross join lateral (
      select s.owner from navi.read_state s
      where s.projection = 'conversation' and s.version = found.version and s.session_id = found.session_id
      offset 0) there
    where there.owner = $2 and found.version = (
      select number from navi.serving_build where projection = 'conversation' and version = $1)"""


class PostgresReads:
    """``ReadModels`` in Postgres; the connections are the caller's, and their owner closes them."""

    def __init__(self, reads: ReadPool) -> None:
        self._reads = reads

    async def builds(self, projections: Sequence[str]) -> Sequence[Build]:
        return _builds(await fetch(self._reads, _BUILDS, projections))

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
            self._reads, _LOAD, projection, version, session_id, rows_after, rows_limit, hidden
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
        rows = await fetch(self._reads, _LAST_ROW, projection, version, session_id, until)
        return (rows[0]["key"], rows[0]["row"]) if rows else None

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        rows = await fetch(self._reads, _POSITIONS, projection, version)
        return {row["partition"]: row["position"] for row in rows}

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner | None,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        wanted = (projection, version, owner, limit)
        if after is None:
            first = _LIST_OF_ALL if owner is None else _LIST
            return _listed(await fetch(self._reads, first, *wanted))
        later = _LIST_OF_ALL_AFTER if owner is None else _LIST_AFTER
        return _listed(await fetch(self._reads, later, *wanted, *after))

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        return _listed(await fetch(self._reads, _UNFINISHED, projection, version, after, limit))

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        return _listed(await fetch(self._reads, _OWING, projection, version, after, limit))

    async def find_marks(
        self, version: int, *, owner: Owner, marks: Sequence[str]
    ) -> Sequence[tuple[SessionId, str]]:
        rows = await fetch(self._reads, _FIND_MARKS, version, owner, list(marks))
        return tuple((SessionId(row["session_id"]), row["mark"]) for row in rows)

    async def find_said(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[SaidRow]:
        return await search.find_said(self._reads, version, owner, question)

    async def find_named(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[NamedRow]:
        return await search.find_named(self._reads, version, owner, question)

    async def names(
        self, version: int, *, owner: Owner, sessions: Sequence[SessionId]
    ) -> Mapping[SessionId, str | None]:
        return await search.names(self._reads, version, owner, sessions)


def _builds(rows: Sequence[asyncpg.Record]) -> tuple[Build, ...]:
    positions: dict[tuple[str, int], dict[int, int]] = {}
    for row in rows:
        of_build = positions.setdefault((row["projection"], row["number"]), {})
        if row["partition"] is not None:
            of_build[row["partition"]] = row["position"]
    described = {(row["projection"], row["number"]): row for row in rows}
    return tuple(
        Build(
            projection=projection,
            number=number,
            version=row["version"],
            state=row["state"],
            positions=positions[projection, number],
        )
        for (projection, number), row in described.items()
    )


def _listed(rows: Sequence[asyncpg.Record]) -> tuple[tuple[SessionId, StoredState], ...]:
    return tuple(
        (SessionId(row["session_id"]), StoredState(seq=row["seq"], state=row["state"]))
        for row in rows
    )
