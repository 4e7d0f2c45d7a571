"""Numbered places of owners: one process each, and free when that has gone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.in_memory.place_locks import InMemoryPlaceLocks
from navi.adapters.postgres.place_locks import PostgresPlaceLocks
from navi.domain.vocabulary.ids import Owner
from navi.ports.user_limits import PlaceLocks

ALICE, BOB = Owner("alice"), Owner("bob")


@asynccontextmanager
async def process(dsn: str) -> AsyncGenerator[PostgresPlaceLocks, None]:
    locks = PostgresPlaceLocks(dsn)
    yield locks
    await locks.close()


async def excludes(one: PlaceLocks, other: PlaceLocks) -> None:
    mine = [await one.lock(ALICE, [0, 1, 2]), await one.lock(ALICE, [1, 2])]
    theirs = [await other.lock(ALICE, [0, 1, 2]), await other.lock(ALICE, [0, 1])]
    of_bob = await other.lock(BOB, [0, 1, 2])
    await one.unlock(ALICE, 1)
    after = await other.lock(ALICE, [0, 1])

    assert (mine, theirs, of_bob, after) == ([0, 1], [2, None], 0, 1)


async def test_a_place_is_one_processs_until_it_is_given_back(database: str) -> None:
    async with process(database) as one, process(database) as other:
        await excludes(one, other)


async def test_in_memory_as_well() -> None:
    taken = set[tuple[Owner, int]]()

    await excludes(InMemoryPlaceLocks(taken), InMemoryPlaceLocks(taken))


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
