"""Read models in Postgres: generic tables, keyed by projection, build and session."""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from navi.adapters.postgres.connect import fetch
from navi.adapters.postgres.read_models.builds import PostgresBuilds
from navi.adapters.postgres.read_models.projection_batch import PostgresProjectionBatch
from navi.adapters.postgres.transaction import answering, transaction
from navi.domain.vocabulary.ids import SessionId
from navi.ports.read_model_builds import ProjectionBatch
from navi.ports.read_models import ParkedEvent

_LOCK_CHECKPOINT = """
    select position from navi.checkpoint
    where projection = $1 and version = $2 and partition = $3
    for update skip locked"""

# Does nothing where another process holds the row, and waits only where one is making it just now.
_MAKE_CHECKPOINT = """
    insert into navi.checkpoint (projection, version, partition)
    select projection, number, $3 from navi.build
    where projection = $1 and number = $2 and state <> 'retired'
    on conflict do nothing
    returning position"""

# Looked at while its checkpoint is locked: a switch wants that lock.
_IS_AT_WORK = """
    select exists (select from navi.build
                   where projection = $1 and number = $2 and state <> 'retired')"""

_PARKED = """
    select session_id::text, seq, type, error from navi.parked_event
    where projection = $1 and build = (
      select number from navi.serving_build where projection = $1 and version = $2)
    order by session_id, seq limit $3"""

# Each batch holds its checkpoint: what a batch has folded from is stored before, or folded after.
_LOCK_ALL = """
    select from navi.checkpoint order by projection, version, partition for update"""

_FORGET = (
    """
    delete from navi.read_row t
    using (select distinct projection, version from navi.checkpoint) c
    where t.projection = c.projection and t.version = c.version and t.session_id = $1
      and t.projection <> all ($2::text[])""",
    """
    delete from navi.parked_event t
    using (select distinct projection, version from navi.checkpoint) c
    where t.projection = c.projection and t.build = c.version and t.session_id = $1
      and t.projection <> all ($2::text[])""",
)

_FORGET_STATES = """
    delete from navi.read_state t
    using (select distinct projection, version from navi.checkpoint) c
    where t.projection = c.projection and t.version = c.version and t.session_id = $1
      and t.projection <> all ($2::text[]) and not ($3 and t.last_active is not null)"""

# What is left stands in lists, and is found by its name.
_EMPTY_LISTED = """
    update navi.read_state t set seq = 0, state = json_build_object('name', t.name, 'seq', null)
    from (select distinct projection, version from navi.checkpoint) c
    where t.projection = c.projection and t.version = c.version and t.session_id = $1
      and t.projection <> all ($2::text[])"""


class PostgresReadModels(PostgresBuilds):
    """``ReadModelBackend`` in Postgres; the pool is the caller's, and its owner closes it."""

    def begin(
        self, projection: str, build: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        return self._begin(projection, build, partition)

    @asynccontextmanager
    async def _begin(
        self, projection: str, build: int, partition: int
    ) -> AsyncGenerator[ProjectionBatch | None, None]:
        checkpoint = (projection, build, partition)
        async with transaction(self._pool) as connection:
            with answering():
                position = await connection.fetchval(_LOCK_CHECKPOINT, *checkpoint)
                if position is None:
                    position = await connection.fetchval(_MAKE_CHECKPOINT, *checkpoint)
                elif not await connection.fetchval(_IS_AT_WORK, projection, build):
                    position = None
            if position is None:
                yield None
            else:
                batch = PostgresProjectionBatch(connection, *checkpoint, position=position)
                async with batch.kept_open():
                    yield batch

    async def forget(
        self, session_id: SessionId, *, keep_listed: bool, but: Collection[str] = ()
    ) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(_LOCK_ALL)
                for statement in _FORGET:
                    await connection.execute(statement, session_id, list(but))
                await connection.execute(_FORGET_STATES, session_id, list(but), keep_listed)
                await connection.execute(_EMPTY_LISTED, session_id, list(but))

    async def parked(
        self, projection: str, version: int, *, limit: int | None = None
    ) -> Sequence[ParkedEvent]:
        rows = await fetch(self._pool, _PARKED, projection, version, limit)
        return tuple(
            ParkedEvent(
                session_id=SessionId(row["session_id"]),
                seq=row["seq"],
                type=row["type"],
                error=row["error"],
            )
            for row in rows
        )
