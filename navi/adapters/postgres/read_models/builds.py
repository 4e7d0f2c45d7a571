"""The builds of read models: begun beside the one that serves, switched, thrown away bit by bit."""

from navi.adapters.postgres.connect import Pool, fetch
from navi.adapters.postgres.read_models.reads import PostgresReads
from navi.adapters.postgres.transaction import LentConnection, answering, transaction
from navi.ports.read_models import Build

_SERVING = "select number from navi.serving_build where projection = $1 and version = $2"

_UNDER_WAY = """
    select number from navi.build
    where projection = $1 and version = $2 and state = 'building'"""

# The version's own number where that is free: at the first build of a version. Does nothing where
# another process has just begun one.
_BEGIN_BUILD = """
    insert into navi.build (projection, number, version)
    select $1, case when exists (select from navi.build where projection = $1 and number = $2)
      then nextval('navi.build_number') else $2 end, $2
    on conflict do nothing"""

_VERSION_OF = "select version from navi.build where projection = $1 and number = $2"

# In order of number, so that two switches at a time wait for each other instead of in a circle.
_LOCK_BUILDS = """
    select number, state from navi.build
    where projection = $1 and version = $2 and state in ('live', 'building')
    order by number for update"""

_COUNT_CHECKPOINTS = """
    select count(*) from navi.checkpoint where projection = $1 and version = any($2::integer[])"""

_LOCK_CHECKPOINTS = """
    select version as number, partition, position from navi.checkpoint
    where projection = $1 and version = any($2::integer[])
    for update skip locked"""

_SET_STATE = "update navi.build set state = $3 where projection = $1 and number = $2"

_IN_USE = "update navi.build set used_at = now() where projection = $1 and version = $2"

_RETIRE_OTHERS = """
    update navi.build set state = 'retired'
    where projection = $1 and version <> $2 and state <> 'retired'
      and used_at <= now() - make_interval(secs => $3)
      and exists (select from navi.build b
                  where b.projection = $1 and b.version = $2 and b.state = 'live')"""

# One process at a time: it is not known what another one, which may fail, has deleted.
_LOCK_RETIRED = """
    select projection, number from navi.build where state = 'retired'
    order by projection, number limit 1 for update skip locked"""

_ANY_RETIRED = "select exists (select from navi.build where state = 'retired')"

_DROP_ROWS = (
    """
    delete from navi.read_row where ctid = any(array(
      select ctid from navi.read_row where projection = $1 and version = $2 limit $3))""",
    """
    delete from navi.read_state where ctid = any(array(
      select ctid from navi.read_state where projection = $1 and version = $2 limit $3))""",
    """
    delete from navi.parked_event where ctid = any(array(
      select ctid from navi.parked_event where projection = $1 and build = $2 limit $3))""",
)

_DROP_BUILD = (
    "delete from navi.checkpoint where projection = $1 and version = $2",
    "delete from navi.build where projection = $1 and number = $2",
)


class PostgresBuilds(PostgresReads):
    """``ReadModels`` and their builds, in Postgres."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._pool = pool

    async def open_build(self, projection: str, version: int) -> Build:
        return await self._find_or_begin(_SERVING, projection, version)

    async def rebuild(self, projection: str, version: int) -> Build:
        return await self._find_or_begin(_UNDER_WAY, projection, version)

    async def switch(self, projection: str, build: int) -> bool:
        async with transaction(self._pool) as connection:
            with answering():
                return await _switch(connection, projection, build)

    async def in_use(self, projection: str, version: int) -> None:
        await fetch(self._pool, _IN_USE, projection, version)

    async def retire_others(self, projection: str, version: int, *, unused_seconds: float) -> None:
        await fetch(self._pool, _RETIRE_OTHERS, projection, version, unused_seconds)

    async def drop_retired(self, *, rows: int) -> bool:
        async with transaction(self._pool) as connection:
            with answering():
                build = await connection.fetchrow(_LOCK_RETIRED)
                if build is not None:
                    await _drop(connection, build["projection"], build["number"], rows=rows)
        return bool((await fetch(self._pool, _ANY_RETIRED))[0]["exists"])

    async def _find_or_begin(self, find: str, projection: str, version: int) -> Build:
        while True:
            found = await fetch(self._pool, find, projection, version)
            number = found[0]["number"] if found else None
            for build in await self.builds([projection]):
                if build.number == number and build.state != "retired":
                    return build
            await fetch(self._pool, _BEGIN_BUILD, projection, version)


async def _switch(connection: LentConnection, projection: str, build: int) -> bool:
    version = await connection.fetchval(_VERSION_OF, projection, build)
    states = {
        row["number"]: row["state"]
        for row in await connection.fetch(_LOCK_BUILDS, projection, version)
    }
    if states.get(build) != "building":
        return states.get(build) == "live"
    old = next((number for number, state in states.items() if state == "live"), None)
    numbers = list(states)
    locked = await connection.fetch(_LOCK_CHECKPOINTS, projection, numbers)
    if len(locked) < await connection.fetchval(_COUNT_CHECKPOINTS, projection, numbers):
        return False  # somebody is at work on one of them
    positions = {(row["number"], row["partition"]): row["position"] for row in locked}
    behind = (
        positions.get((build, partition), 0) < position
        for (number, partition), position in positions.items()
        if number == old
    )
    if any(behind):
        return False
    if old is not None:
        await connection.execute(_SET_STATE, projection, old, "retired")
    await connection.execute(_SET_STATE, projection, build, "live")
    return True


async def _drop(connection: LentConnection, projection: str, build: int, *, rows: int) -> None:
    for statement in _DROP_ROWS:
        status = await connection.execute(statement, projection, build, rows)
        if status == f"DELETE {rows}":
            return
    for statement in _DROP_BUILD:
        await connection.execute(statement, projection, build)
