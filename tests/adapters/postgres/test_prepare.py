"""A database is made ready for a dump, whoever its user was."""

import asyncpg
import pytest

from navi.adapters.postgres.migrate import migrate
from navi.adapters.postgres.prepare import find_vector, prepare


@pytest.mark.parametrize("there", [False, True], ids=["added", "moved"])
async def test_a_pgvector_that_another_user_had_in_a_schema_of_theirs_is_found(
    empty_database: str,
    there: bool,
) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        if there:
            await connection.execute("create extension vector")
        await prepare(empty_database, vector_in="theirs")
        await connection.execute("create table navi.dumped (embedding theirs.vector)")

        await find_vector(empty_database)

        await connection.execute("insert into navi.dumped values ('[1, 2]'::vector)")
    finally:
        await connection.close()
    assert len(await migrate(empty_database)) > 1
