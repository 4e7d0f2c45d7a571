"""One transaction of a projection: states read, changes and the checkpoint written, set by set."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import asyncpg

from navi.adapters.postgres.connect import IDLE_SECONDS
from navi.adapters.postgres.transaction import LentConnection, answering
from navi.domain.reading.projection import Change, Hide, Put, Show
from navi.domain.vocabulary.errors import LogDamaged, LogUnavailable
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_model_builds import SessionChanges
from navi.ports.read_models import ParkedEvent, StoredState

AT_WORK_SECONDS = IDLE_SECONDS / 3  # between two words that a batch is still folded
# Of a statement, which has 10 s. Forks bring all rows of their origins; of long messages it is the index of
# their words that takes long: for 100,000 characters, all that is indexed of one, 0.05 s and more.
PUT_AT_ONCE = 1000  # rows
PUT_BYTES = 1024 * 1024  # of rows, or a single row

_MOVE_CHECKPOINT = """
    update navi.checkpoint set position = $5
    where projection = $1 and version = $2 and partition = $3 and position = $4
    returning position"""

_STATES = """
    select session_id::text, seq, state from navi.read_state
    where projection = $1 and version = $2 and session_id = any($3::uuid[])"""

# A place is where a search looks for it (``0020_places_of_an_owner``): names of sessions have one, and rows.
_SAVE_STATES = """
    insert into navi.read_state
      (projection, version, session_id, owner, seq, state, pinned, last_active, unfinished, owing, place)
    select $1, $2, s.*, case when $1 = 'sessions' then
      navi.place_of_session(before.place, before.last_active, s.last_active, s.owner) end
    from unnest(
      $3::uuid[], $4::text[], $5::bigint[], $6::json[], $7::boolean[], $8::timestamptz[], $9::boolean[], $10::boolean[]
    ) as s (session_id, owner, seq, state, pinned, last_active, unfinished, owing)
    left join lateral (
      select r.place, r.last_active from navi.read_state r
      where r.projection = $1 and r.version = $2 and r.session_id = s.session_id
      offset 0) before on true
    on conflict (projection, version, session_id) do update set
      owner = excluded.owner, seq = excluded.seq, state = excluded.state, pinned = excluded.pinned,
      last_active = excluded.last_active, unfinished = excluded.unfinished, owing = excluded.owing,
      place = excluded.place"""

_PUT_ROWS = """
    insert into navi.read_row (projection, version, session_id, key, row, place)
    select $1, $2, r.session_id, r.key, r.row, navi.place_of(r.owner, nextval('navi.read_row_nth'))
    from unnest($3::uuid[], $4::bigint[], $5::json[], $6::text[]) as r (session_id, key, row, owner)
    on conflict (projection, version, session_id, key) do update set
      row = excluded.row, hidden_by = null"""

_HIDE_ROWS = """
    update navi.read_row r set hidden_by = c.by
    from unnest($3::uuid[], $4::bigint[], $5::bigint[]) as c (session_id, before, by)
    where r.projection = $1 and r.version = $2 and r.session_id = c.session_id
      and r.key < c.before and r.hidden_by is null"""

_DROP_SUMMARIES = """
    delete from navi.read_row r
    using unnest($3::uuid[], $4::bigint[]) as c (session_id, by)
    where r.projection = $1 and r.version = $2 and r.session_id = c.session_id and r.key = -c.by"""

_SHOW_ROWS = """
    update navi.read_row r set hidden_by = null
    from unnest($3::uuid[], $4::bigint[]) as c (session_id, by)
    where r.projection = $1 and r.version = $2 and r.session_id = c.session_id
      and r.hidden_by = c.by"""

_FORGET_ROWS = """
    delete from navi.read_row
    where projection = $1 and version = $2 and session_id = any($3::uuid[])"""

_PARK = """
    insert into navi.parked_event (projection, build, session_id, seq, type, error)
    select $1, $2, p.* from unnest($3::uuid[], $4::bigint[], $5::text[], $6::text[]) as p
    on conflict (projection, build, session_id, seq) do nothing"""


_Step = list[tuple[SessionId, Change]]
_Row = tuple[tuple[SessionId, int], bytes]  # as it is encoded, by its session and key


class PostgresProjectionBatch:
    """``ProjectionBatch`` on a connection whose transaction holds the checkpoint's lock."""

    def __init__(
        self,
        connection: LentConnection,
        projection: str,
        build: int,
        partition: int,
        *,
        position: int,
    ) -> None:
        self._connection = connection
        self._model = (projection, build)
        self._partition = partition
        self._position = position
        self._in_use = asyncio.Lock()  # a connection runs one statement at a time

    @property
    def position(self) -> int:
        return self._position

    @asynccontextmanager
    async def kept_open(self) -> AsyncGenerator[None, None]:
        """Keep the transaction from being idle too long while the block folds, however long that takes.

        Not by a longer limit: of a process that is frozen others need the checkpoint soon.
        """
        speaking = asyncio.create_task(self._say_at_work(), name="projection batch")
        try:
            yield
            # Cancelled in mid-statement, it would fail the transaction.
            await self._in_use.acquire()
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])

    async def _say_at_work(self) -> None:
        with suppress(LogUnavailable):  # the batch runs into it as well
            while True:
                await asyncio.sleep(AT_WORK_SECONDS)
                async with self._in_use:
                    with answering(asyncpg.PostgresError):
                        await self._connection.execute("select")

    async def states(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredState]:
        async with self._in_use:
            with answering():
                rows = await self._connection.fetch(_STATES, *self._model, session_ids)
        return {
            SessionId(row["session_id"]): StoredState(seq=row["seq"], state=row["state"])
            for row in rows
        }

    async def save(
        self, sessions: Sequence[SessionChanges], *, parked: Sequence[ParkedEvent], position: int
    ) -> None:
        async with self._in_use:
            with answering():
                if sessions:
                    await self._save_states(sessions)
                if anew := [session.session_id for session in sessions if session.anew]:
                    await self._execute(_FORGET_ROWS, anew)
                owners = {session.session_id: session.owner for session in sessions}
                for step in _steps(sessions):
                    await self._apply(step, owners)
                if parked:
                    await self._execute(
                        _PARK,
                        [one.session_id for one in parked],
                        [one.seq for one in parked],
                        [one.type for one in parked],
                        [one.error for one in parked],
                    )
                moved = await self._connection.fetchval(
                    _MOVE_CHECKPOINT, *self._model, self._partition, self._position, position
                )
        if moved is None:
            raise LogDamaged(f"checkpoint of {self._model} is no longer at {self._position}")
        self._position = position

    async def _save_states(self, sessions: Sequence[SessionChanges]) -> None:
        listings = [session.listing for session in sessions]
        await self._execute(
            _SAVE_STATES,
            [session.session_id for session in sessions],
            [session.owner for session in sessions],
            [session.seq for session in sessions],
            [session.state for session in sessions],
            [listing and listing.pinned for listing in listings],
            [listing and listing.last_active for listing in listings],
            [listing and listing.unfinished for listing in listings],
            [listing and listing.owing for listing in listings],
        )

    async def _apply(self, step: _Step, owners: Mapping[SessionId, Owner]) -> None:
        """Make changes that do not touch each other, a statement for each kind."""
        # A statement may write a row once only: of two puts under one key the later one counts.
        puts = {(id_, change.key): change.row for id_, change in step if isinstance(change, Put)}
        hides = [(id_, change) for id_, change in step if isinstance(change, Hide)]
        shows = [(id_, change.by) for id_, change in step if isinstance(change, Show)]
        if puts:
            await self._put(puts, owners)
        if hides:
            befores, bys = zip(*((hide.before, hide.by) for _, hide in hides), strict=True)
            await self._execute(_HIDE_ROWS, [id_ for id_, _ in hides], befores, bys)
        if shows:
            ids, bys = zip(*shows, strict=True)
            await self._execute(_DROP_SUMMARIES, ids, bys)
            await self._execute(_SHOW_ROWS, ids, bys)

    async def _put(
        self, rows: Mapping[tuple[SessionId, int], bytes], owners: Mapping[SessionId, Owner]
    ) -> None:
        for some in _portions(tuple(rows.items())):
            ids = [session_id for (session_id, _), _ in some]
            keys = [key for (_, key), _ in some]
            of = [owners[session_id] for session_id in ids]
            await self._execute(_PUT_ROWS, ids, keys, [row for _, row in some], of)

    async def _execute(self, statement: str, *columns: Sequence[object]) -> None:
        await self._connection.execute(statement, *self._model, *columns)


def _steps(sessions: Sequence[SessionChanges]) -> Sequence[_Step]:
    """All changes in steps to be made one after the other; within a step their order is free.

    The nth step holds the nth run of every session: puts that follow each other, or one hide or show.
    """
    steps: list[_Step] = []
    for session in sessions:
        nth = -1
        last: Change | None = None
        for change in session.changes:
            if not (isinstance(change, Put) and isinstance(last, Put)):
                nth += 1
                if nth == len(steps):
                    steps.append([])
            steps[nth].append((session.session_id, change))
            last = change
    return steps


def _portions(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    """The rows in portions, each for one statement."""
    start, size = 0, 0
    for nth, (_, row) in enumerate(rows):
        if nth > start and (nth - start == PUT_AT_ONCE or size + len(row) > PUT_BYTES):
            yield rows[start:nth]
            start, size = nth, 0
        size += len(row)
    yield rows[start:]
