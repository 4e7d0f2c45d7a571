from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.postgres.place_locks import PostgresPlaceLocks
from navi.ports.user_limits import PlaceLocks
from tests.contracts.place_locks import ALICE, PlaceLocksContract


@asynccontextmanager
async def process(dsn: str) -> AsyncGenerator[PostgresPlaceLocks, None]:
    locks = PostgresPlaceLocks(dsn)
    yield locks
    await locks.close()


class TestPostgresPlaceLocks(PlaceLocksContract):
    @pytest.fixture
    async def one(self, database: str) -> AsyncGenerator[PlaceLocks, None]:
        async with process(database) as locks:
            yield locks

    @pytest.fixture
    async def other(self, database: str) -> AsyncGenerator[PlaceLocks, None]:
        async with process(database) as locks:
            yield locks


@pytest.mark.parametrize("numbers", [[0], [0, 1, 2, 3]])
async def test_the_places_of_a_process_that_has_gone_are_free(
    database: str, numbers: list[int]
) -> None:
    async with process(database) as other:
        async with process(database) as one:
            for number in numbers:
                assert await one.lock(ALICE, [number]) == number
        found: list[int] = []
        while len(found) < len(numbers):  # Postgres sees a moment later that a connection has gone
            number = await other.lock(ALICE, [n for n in numbers if n not in found])
            found += [] if number is None else [number]

    assert sorted(found) == numbers
