"""Numbered places of owners, as advisory locks on a connection of the process: they end with it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from navi.adapters.postgres.connect import Connection, connect
from navi.adapters.postgres.transaction import answering
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import Owner

ANSWER_SECONDS = 2.0

_LOCKS = 7010  # first key of the locks; the second is made of owner and number

# Row by row until one is free: `limit` ends the scan, so that no lock is taken besides.
_LOCK = """
    select number from unnest($2::int[]) as number
    where pg_try_advisory_lock($1, hashtext($3 || ':' || number)) limit 1"""
_UNLOCK = "select pg_advisory_unlock($1, hashtext($3 || ':' || $2::int))"


class PostgresPlaceLocks:
    """``PlaceLocks`` in Postgres. With its connection all places are lost, and taken as they come again."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self._busy = asyncio.Lock()  # a connection does one thing at a time

    async def lock(self, owner: Owner, numbers: Sequence[int]) -> int | None:
        return await self._ask(_LOCK, _LOCKS, list(numbers), owner)

    async def unlock(self, owner: Owner, number: int) -> None:
        with suppress(LogUnavailable):
            await self._ask(_UNLOCK, _LOCKS, number, owner)

    async def close(self) -> None:
        """End the connection, and with it every place."""
        if self._connection is not None:
            self._connection.terminate()

    async def _ask(self, statement: str, *values: object) -> int | None:
        async with self._busy:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._dsn, query_seconds=ANSWER_SECONDS)
            try:
                with answering():
                    return await self._connection.fetchval(statement, *values)
            except BaseException:
                # What it would answer next is not known.
                self._connection.terminate()
                raise
