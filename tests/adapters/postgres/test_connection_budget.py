"""How many connections each of several nodes may open."""

import asyncpg
import pytest

from navi.adapters.postgres.connection_budget import (
    FULL,
    LEAST,
    ConnectionBudget,
    allowed_connections,
    pool_size_alone,
)
from navi.domain.vocabulary.errors import BadInput


def test_pools_are_as_large_as_fits_with_one_node_more_while_one_is_replaced() -> None:
    budget = ConnectionBudget(nodes=4, partitions=1)

    assert budget.needed(FULL) == 5 * (3 * FULL + 1 + 10) + 10
    assert budget.pool_size(budget.needed(FULL)) == FULL
    assert budget.pool_size(budget.needed(5)) == 5
    assert budget.pool_size(budget.needed(6) - 1) == 5


def test_where_they_do_not_fit_it_is_told_how_many_are_missing() -> None:
    budget = ConnectionBudget(nodes=16, partitions=1)

    with pytest.raises(BadInput) as refusal:
        budget.pool_size(97)

    assert str(refusal.value) == (
        f"NAVI_PROCESSES: 16 nodes need {budget.needed(LEAST)} connections to Postgres, and it allows "
        "97: fewer processes, or a larger limit there"
    )


def test_a_node_alone_takes_what_a_small_server_allows_and_leaves_some_to_commands() -> None:
    assert [pool_size_alone(allowed, partitions=1) for allowed in (97, 33, 20, 17)] == [
        *(FULL, 4, LEAST, LEAST)
    ]
    with pytest.raises(BadInput) as refusal:
        pool_size_alone(16, partitions=1)
    assert str(refusal.value) == (
        "DATABASE_URL: a node needs 17 connections, and Postgres allows its user 16"
    )


async def test_a_server_says_how_many_it_allows(database: str) -> None:
    assert await allowed_connections(database) > 50

    connection = await asyncpg.connect(database)
    try:
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} connection limit 20")
    finally:
        await connection.close()
    assert await allowed_connections(database) == 20
