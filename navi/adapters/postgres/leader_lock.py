"""A cluster-wide exclusive lock: a Postgres advisory lock, held as long as its connection."""

import asyncpg

from navi.adapters.postgres.connect import Connection, connect
from navi.adapters.postgres.transaction import answering

HEADS_LOCK = 7004  # who signs heads; 7003 is that of memories
TRACES_LOCK = 7009  # who sends traces
ANSWER_SECONDS = 5.0

_TAKE = "select pg_try_advisory_lock($1, 0)"
_STILL = "select 1"


class PostgresLeaderLock:
    """``LeaderLock`` by an advisory lock on a connection of its own."""

    def __init__(self, dsn: str, key: int) -> None:
        self._dsn = dsn
        self._key = key
        self._connection: Connection | None = None

    async def acquire(self) -> bool:
        """Acquire the lock, or check that it is still held; whether it is.

        Raises:
            LogUnavailable: Postgres does not answer; the lock is then not held.
        """
        try:
            if self._connection is not None:
                # A closed one raises as well: another process may have been through meanwhile.
                with answering(asyncpg.PostgresError):
                    await self._connection.execute(_STILL)
                return True
            connection = await connect(self._dsn, query_seconds=ANSWER_SECONDS)
            self._connection = connection
            with answering(asyncpg.PostgresError):
                taken = await connection.fetchval(_TAKE, self._key)
        except BaseException:
            self.release()
            raise
        if not taken:
            self.release()
        return bool(taken)

    def release(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
