"""Passwords that an admin changes while somebody shows the old one."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from navi.adapters.system import RandomIds, SystemClock
from navi.application.accounts.audit_log import AuditLog
from navi.application.accounts.manage_users import ManageUsers
from navi.application.accounts.sign_in import SignIn
from navi.domain.accounts.accounts import User
from navi.domain.vocabulary.errors import NotSignedIn
from navi.domain.vocabulary.principal import CLI_ACTOR, Principal
from navi.ports.accounts import Accounts
from tests.support.agent_node import PASSWORDS, TIMEOUT, WORLDS, World, agent_node
from tests.support.people import ADDRESS, PASSWORD

NEW, OTHER = "another horse battery", "yet another horse"


class SlowPasswords:
    """``Passwords`` that say whether one is right when they are told to.

    Attributes:
        looking: set while a password is looked at.
        go_on: to be set for the answer.
    """

    def __init__(self) -> None:
        self.looking, self.go_on = asyncio.Event(), asyncio.Event()

    async def hash(self, password: str) -> str:
        return await PASSWORDS.hash(password)

    async def verify(self, password: str, hashed: str | None) -> bool:
        is_right = await PASSWORDS.verify(password, hashed)
        self.looking.set()
        await self.go_on.wait()
        return is_right

    def secret(self) -> str:
        return PASSWORDS.secret()


class Signing(Struct, frozen=True, kw_only=True):
    """Who signs in slowly, and who looks after users meanwhile."""

    sign_in: SignIn
    users: ManageUsers
    accounts: Accounts
    passwords: SlowPasswords

    async def ada(self) -> User:
        """A user."""
        return await self.users.add(CLI_ACTOR, name="ada", password=PASSWORD, role="user")

    async def meanwhile(
        self, shown: Coroutine[Any, Any, Any], change: Coroutine[Any, Any, Any]
    ) -> BaseException | None:
        """How it ends for who shows a password, with a change while it is looked at."""
        async with asyncio.timeout(TIMEOUT):
            showing = asyncio.create_task(shown)
            await self.passwords.looking.wait()
            await change
            self.passwords.go_on.set()
            await asyncio.wait({showing})
        return showing.exception()


@pytest.fixture
async def signing(tmp_path: Path) -> AsyncGenerator[Signing, None]:
    world, passwords = World(), SlowPasswords()
    WORLDS.remove(world)  # the audit log is all there is, and no node has run that
    async with agent_node(world, tmp_path, [], auth="accounts") as node:
        audit_log = AuditLog(node.records, world.accounts)
        yield Signing(
            sign_in=SignIn(world.accounts, passwords, audit_log, SystemClock(), RandomIds()),
            users=node.accounts.users,
            accounts=world.accounts,
            passwords=passwords,
        )


@pytest.mark.parametrize("change", [{"password": NEW}, {"disabled": True}], ids=str)
async def test_a_login_under_way_does_not_outlive_what_ends_all_logins(
    signing: Signing, change: dict[str, Any]
) -> None:
    ada = await signing.ada()

    ended = await signing.meanwhile(
        signing.sign_in.login("ada", PASSWORD, ADDRESS),
        signing.users.change(CLI_ACTOR, ada.id, **change),
    )

    assert isinstance(ended, NotSignedIn)
    assert list(await signing.accounts.credentials(ada.id, "login")) == []


async def test_a_login_under_way_does_not_outlive_its_user(signing: Signing) -> None:
    ada = await signing.ada()

    ended = await signing.meanwhile(
        signing.sign_in.login("ada", PASSWORD, ADDRESS), signing.users.remove(CLI_ACTOR, ada.id)
    )

    assert isinstance(ended, NotSignedIn)


async def test_who_knows_the_old_password_does_not_undo_an_admins_reset(signing: Signing) -> None:
    ada = await signing.ada()
    login = Principal(
        user_id=ada.id, name="ada", role="user", auth_id=RandomIds().uuid(), auth_kind="login"
    )

    ended = await signing.meanwhile(
        signing.sign_in.change_password(login, PASSWORD, NEW, ADDRESS),
        signing.users.change(CLI_ACTOR, ada.id, password=OTHER),
    )

    assert isinstance(ended, NotSignedIn)
    assert await PASSWORDS.verify(OTHER, await signing.accounts.password_of(ada.id))
