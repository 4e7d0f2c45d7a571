"""What turns ask about their owners: seldom asked of Postgres, and never an answer of long ago."""

from datetime import UTC, datetime

from msgspec.structs import replace

from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.application.accounts.known_users import KEPT_SECONDS, MAX_KEPT, KnownUsers
from navi.application.accounts.user_rights import UserRights
from navi.domain.accounts.accounts import OwnLimits, User, UserChange
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import NO_LIMITS
from tests.support.manual_clock import ManualClock

ADA = User(id=Owner("ada"), name="ada", role="user", created_at=datetime(2026, 11, 20, tzinfo=UTC))


class CountingAccounts(InMemoryAccounts):
    """Accounts that know how often they were asked for a user."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def user(self, user_id: Owner) -> User | None:
        self.asked += 1
        return await super().user(user_id)


async def test_what_a_turn_asks_about_its_owner_costs_one_question() -> None:
    accounts, clock = CountingAccounts(), ManualClock()
    await accounts.add_user(ADA, password=None)
    rights = UserRights(KnownUsers(accounts, clock), mode="accounts", limits=NO_LIMITS)

    await rights.limits_of(ADA.id)
    await rights.tokens_a_day(ADA.id)
    await rights.user_of(ADA.id)

    assert accounts.asked == 1


async def test_limits_that_another_node_has_changed_hold_within_the_second() -> None:
    accounts, clock = CountingAccounts(), ManualClock()
    await accounts.add_user(ADA, password=None)
    rights = UserRights(KnownUsers(accounts, clock), mode="accounts", limits=NO_LIMITS)
    assert await rights.limits_of(ADA.id) == NO_LIMITS

    await accounts.change_user(ADA.id, UserChange(limits=OwnLimits(turns=1)))
    clock.wind(KEPT_SECONDS)

    assert await rights.limits_of(ADA.id) == replace(NO_LIMITS, turns=1)


async def test_what_this_process_has_changed_holds_at_once() -> None:
    accounts, clock = CountingAccounts(), ManualClock()
    await accounts.add_user(ADA, password=None)
    known = KnownUsers(accounts, clock)
    await known.user(ADA.id)

    await accounts.change_user(ADA.id, UserChange(role="admin"))
    known.forget(ADA.id)

    assert await known.user(ADA.id) == replace(ADA, role="admin")


async def test_of_many_users_those_asked_for_last_are_kept() -> None:
    accounts, clock = CountingAccounts(), ManualClock()
    known = KnownUsers(accounts, clock)
    for number in range(MAX_KEPT + 1):
        await known.user(Owner(f"user-{number}"))
    asked = accounts.asked

    await known.user(Owner(f"user-{MAX_KEPT}"))
    assert accounts.asked == asked

    await known.user(Owner("user-0"))
    assert accounts.asked == asked + 1
