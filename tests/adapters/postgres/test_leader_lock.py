"""One process at a time, told by Postgres."""

import asyncpg
import pytest

from navi.adapters.postgres.connect import connect
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


async def test_the_server_looks_for_a_holder_that_says_nothing_more(empty_database: str) -> None:
    connection = await connect(empty_database)
    try:
        settings = await connection.fetch(
            # What it was told: over the tests' unix socket the present value is always 0.
            "select name, reset_val::int from pg_settings where name like 'tcp_keepalives_%'"
        )
    finally:
        connection.terminate()

    told = {row["name"]: row["reset_val"] for row in settings}
    silence = told["tcp_keepalives_interval"] * told["tcp_keepalives_count"]
    assert (
        0 < told["tcp_keepalives_idle"] + silence < 15
    )  # seconds, within which another node has the turns
