"""What all locks on places promise."""

import pytest

from navi.domain.vocabulary.ids import Owner
from navi.ports.user_limits import PlaceLocks

ALICE, BOB = Owner("alice"), Owner("bob")


class PlaceLocksContract:
    """Inherit, and give the fixtures ``one`` and ``other``: two processes of a cluster in which no place is taken."""

    @pytest.fixture
    def one(self) -> PlaceLocks:
        raise NotImplementedError

    @pytest.fixture
    def other(self) -> PlaceLocks:
        raise NotImplementedError

    async def test_the_first_of_the_places_that_is_free_is_taken(
        self, one: PlaceLocks, other: PlaceLocks
    ) -> None:
        assert await one.lock(ALICE, [0, 1, 2]) == 0
        assert await one.lock(ALICE, [1, 2]) == 1

        assert await other.lock(ALICE, [0, 1, 2]) == 2

    async def test_who_finds_all_places_taken_gets_none(
        self, one: PlaceLocks, other: PlaceLocks
    ) -> None:
        await one.lock(ALICE, [0])
        await one.lock(ALICE, [1])

        assert await other.lock(ALICE, [0, 1]) is None

    async def test_each_owner_has_places_of_their_own(
        self, one: PlaceLocks, other: PlaceLocks
    ) -> None:
        await one.lock(ALICE, [0])

        assert await other.lock(BOB, [0]) == 0

    async def test_a_place_that_is_looked_past_stays_free(
        self, one: PlaceLocks, other: PlaceLocks
    ) -> None:
        await one.lock(ALICE, [0, 1, 2])

        assert await other.lock(ALICE, [2]) == 2
        assert await other.lock(ALICE, [1]) == 1

    async def test_a_place_that_was_given_back_is_free(
        self, one: PlaceLocks, other: PlaceLocks
    ) -> None:
        await one.lock(ALICE, [0])
        await one.lock(ALICE, [1])

        await one.unlock(ALICE, 1)

        assert await other.lock(ALICE, [0, 1]) == 1
