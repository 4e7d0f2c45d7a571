"""One process at a time, told by Postgres."""

import asyncpg
import pytest

from navi.adapters.postgres.leader_lock import HEADS_LOCK, PostgresLeaderLock
from navi.domain.vocabulary.errors import LogUnavailable


async def test_the_second_comes_through_when_the_first_has_left(empty_database: str) -> None:
    first, second = (PostgresLeaderLock(empty_database, HEADS_LOCK) for _ in range(2))

    assert (await first.acquire(), await first.acquire(), await second.acquire()) == (
        True,
        True,
        False,
    )
    first.release()

    for _ in range(100):  # the server notices the end of a connection by itself
        if await second.acquire():
            break
    assert await second.acquire()
    assert not await first.acquire()
    second.release()


async def test_a_lost_connection_is_a_lost_lock(empty_database: str) -> None:
    lock = PostgresLeaderLock(empty_database, HEADS_LOCK)
    assert await lock.acquire()

    connection = await asyncpg.connect(empty_database)
    await connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    await connection.close()

    with pytest.raises(LogUnavailable):
        await lock.acquire()
    assert await lock.acquire()
    lock.release()
