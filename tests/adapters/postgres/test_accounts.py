import asyncio
from collections.abc import AsyncGenerator

import pytest

from navi.adapters.postgres.accounts import PostgresAccounts
from navi.adapters.postgres.connect import open_pool
from navi.domain.accounts.accounts import UserChange
from navi.domain.vocabulary.errors import RuleBroken
from navi.ports.accounts import Accounts
from tests.contracts.accounts import ADA, HASH, AccountsContract, credential, user

BLOCKS = """
    select exists (
      select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid)))"""


@pytest.fixture
async def accounts(database: str) -> AsyncGenerator[Accounts, None]:
    async with open_pool(database, size=3) as pool:
        yield PostgresAccounts(pool)


class TestPostgresAccounts(AccountsContract):
    @pytest.fixture
    def accounts(self, accounts: Accounts) -> Accounts:
        return accounts


async def test_a_login_waits_for_a_change_of_its_password(
    database: str, accounts: Accounts
) -> None:
    """The change has begun when the login comes, and ends behind it: there is no login."""
    bob, login = user(2, "bob"), credential(7, user(2, "bob"), "login")
    await accounts.add_user(bob, password=HASH)
    async with open_pool(database, size=1) as pool, pool.acquire() as connection:
        changing = connection.transaction()
        await changing.start()
        await connection.execute("update navi.account set password = 'other'")

        adding = asyncio.create_task(accounts.add_login(login, password=HASH))
        async with asyncio.timeout(60):
            while not await connection.fetchval(BLOCKS):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        await changing.commit()

        assert not await adding
    assert list(await accounts.credentials(bob.id, "login")) == []


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
