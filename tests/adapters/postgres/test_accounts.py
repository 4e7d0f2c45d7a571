import asyncio
from collections.abc import AsyncGenerator

import pytest

from navi.adapters.postgres.accounts import PostgresAccounts
from navi.adapters.postgres.connect import open_pool
from navi.domain.accounts.accounts import UserChange
from navi.domain.vocabulary.errors import RuleBroken
from navi.ports.accounts import Accounts
from tests.contracts.accounts import ADA, AccountsContract, user


@pytest.fixture
async def accounts(database: str) -> AsyncGenerator[Accounts, None]:
    async with open_pool(database, size=3) as pool:
        yield PostgresAccounts(pool)


class TestPostgresAccounts(AccountsContract):
    @pytest.fixture
    def accounts(self, accounts: Accounts) -> Accounts:
        return accounts


async def test_of_two_admins_who_demote_each_other_one_stays(accounts: Accounts) -> None:
    other = user(2, "bob", "admin")
    for each in (ADA, other):
        await accounts.add_user(each, password=None)

    ended = await asyncio.gather(
        *(accounts.change_user(each.id, UserChange(role="user")) for each in (ADA, other)),
        return_exceptions=True,
    )

    assert [type(each) for each in ended].count(RuleBroken) == 1
    assert [each.role for each in await accounts.users()].count("admin") == 1
