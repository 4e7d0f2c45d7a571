"""Rows of a table by asyncpg, in as few commits as anybody keeps these items in: what is left to the others' own work."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg

from bench.peers.turn import ANSWER, CALL_ARGUMENTS, CALL_NAME, CALLS, QUESTION, RESULT

_TABLE = """
    create table item (
      id bigint generated always as identity primary key, session uuid not null, body json not null)"""
_INSERT = "insert into item (session, body) select $1, unnest($2::json[])"


class RowStore:
    """Sessions in one table."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def session(self, turns: int) -> str:
        """A new session with so many turns in it."""
        session = uuid4().hex
        for _ in range(turns):
            await self.turn(session)
        return session

    async def turn(self, session: str) -> None:
        """Keep one more turn."""
        for items in _steps():
            await self._pool.execute(_INSERT, session, [json.dumps(item) for item in items])


def _steps() -> Iterator[list[dict[str, Any]]]:
    yield [{"role": "user", "content": QUESTION}]
    for _ in range(CALLS):
        call_id = uuid4().hex
        yield [
            {"call_id": call_id, "name": CALL_NAME, "arguments": CALL_ARGUMENTS},
            {"call_id": call_id, "output": RESULT},
        ]
    yield [{"role": "assistant", "content": ANSWER}]


@asynccontextmanager
async def opened(dsn: str) -> AsyncGenerator[RowStore, None]:
    """The sessions in a database."""
    async with asyncpg.create_pool(dsn, max_size=16) as pool:
        await pool.execute(_TABLE)
        yield RowStore(pool)
