"""Up to where traces were sent, beside the checkpoints of read models."""

from navi.adapters.postgres.connect import Pool, fetch

PROJECTION = ("traces", 1)  # name and version in navi.checkpoint

_POSITION = """
    select position from navi.checkpoint
    where projection = $1 and version = $2 and partition = $3"""

_BEGIN = """
    insert into navi.checkpoint (projection, version, partition, position) values ($1, $2, $3, $4)
    on conflict do nothing
    returning position"""

_MOVE = """
    update navi.checkpoint set position = $4
    where projection = $1 and version = $2 and partition = $3 and position = $5
    returning position"""


class PostgresTraceCheckpoint:
    """``TraceCheckpoint`` in Postgres; the pool is the caller's."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def position(self, partition: int) -> int | None:
        rows = await fetch(self._pool, _POSITION, *PROJECTION, partition)
        return rows[0]["position"] if rows else None

    async def move(self, partition: int, *, after: int | None, position: int) -> bool:
        place = (*PROJECTION, partition, position)
        if after is None:
            return bool(await fetch(self._pool, _BEGIN, *place))
        return bool(await fetch(self._pool, _MOVE, *place, after))
