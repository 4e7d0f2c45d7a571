"""What every implementation of ``Accounts`` does."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from navi.domain.accounts.accounts import (
    Credential,
    CredentialKind,
    FailedTry,
    OwnLimits,
    User,
    UserChange,
    hash_name,
)
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner, uuid7
from navi.domain.vocabulary.principal import Role
from navi.ports.accounts import Accounts, Standing

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
HASH = "$argon2id$of-something"


def id_(number: int) -> str:
    return uuid7(milliseconds=number, random=bytes(10))


def user(number: int, name: str, role: Role = "user") -> User:
    return User(id=Owner(id_(number)), name=name, role=role, created_at=NOW)


def credential(number: int, whose: User, kind: CredentialKind = "token") -> Credential:
    return Credential(
        id=id_(number),
        user_id=whose.id,
        kind=kind,
        secret_sha256=bytes([number]) * 32,
        name=f"number {number}",
        scopes=("read", "chat"),
        created_at=NOW + timedelta(seconds=number),
        expires_at=None,
    )


ADA, BOB = user(1, "Ada", "admin"), user(2, "bob")


class AccountsContract:
    """A subclass gives ``accounts`` without anybody in it."""

    @pytest.fixture
    def accounts(self) -> Accounts:
        raise NotImplementedError

    async def test_users_are_found_by_id_and_by_name_however_it_is_cased(
        self, accounts: Accounts
    ) -> None:
        assert not await accounts.any_user()
        await accounts.add_user(BOB, password=HASH)
        await accounts.add_user(ADA, password=None)

        assert await accounts.any_user()
        assert list(await accounts.users()) == [ADA, BOB]
        assert await accounts.user(ADA.id) == await accounts.named("aDA") == ADA
        assert await accounts.user(Owner("nobody")) is await accounts.named("nobody") is None
        assert await accounts.password_of(BOB.id) == HASH
        assert await accounts.password_of(ADA.id) is None

    async def test_nobody_has_a_nul_in_a_name_or_an_id(self, accounts: Accounts) -> None:
        await accounts.add_user(BOB, password=None)

        assert await accounts.named("bob\0") is None
        assert await accounts.user(Owner(f"{BOB.id}\0")) is None

    async def test_neither_a_name_nor_an_id_is_given_twice(self, accounts: Accounts) -> None:
        await accounts.add_user(BOB, password=None)

        with pytest.raises(RuleBroken):
            await accounts.add_user(user(3, "BOB"), password=None)
        with pytest.raises(RuleBroken):
            await accounts.add_user(user(2, "carol"), password=None)
        assert list(await accounts.users()) == [BOB]

    async def test_a_change_leaves_what_it_does_not_name(self, accounts: Accounts) -> None:
        await accounts.add_user(BOB, password=HASH)
        limits = OwnLimits(turns=1, tokens=None)

        await accounts.change_user(BOB.id, UserChange(disabled=True, limits=limits))
        changed = await accounts.change_user(BOB.id, UserChange(role="admin", password="other"))  # noqa: S106

        assert changed == await accounts.user(BOB.id)
        assert (changed.name, changed.role, changed.disabled) == ("bob", "admin", True)
        assert changed.limits == limits
        assert await accounts.password_of(BOB.id) == "other"
        with pytest.raises(NotFound):
            await accounts.change_user(ADA.id, UserChange(disabled=True))

    async def test_a_change_of_limits_leaves_those_that_it_does_not_name(
        self, accounts: Accounts
    ) -> None:
        await accounts.add_user(BOB, password=None)
        changes = (
            UserChange(limits=OwnLimits(turns=1)),
            UserChange(limits=OwnLimits(requests=5, tokens=None)),
            UserChange(limits=OwnLimits(turns=2), default_limits=True),
            UserChange(default_limits=True),
        )

        limits = [(await accounts.change_user(BOB.id, each)).limits for each in changes]

        assert limits == [
            OwnLimits(turns=1),
            OwnLimits(turns=1, requests=5, tokens=None),
            OwnLimits(turns=2),
            OwnLimits(),
        ]
        assert await accounts.user(BOB.id) == BOB

    async def test_somebody_remains_an_admin(self, accounts: Accounts) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=None)

        for change in (UserChange(role="user"), UserChange(disabled=True)):
            with pytest.raises(RuleBroken):
                await accounts.change_user(ADA.id, change)
        with pytest.raises(RuleBroken):
            await accounts.remove_user(ADA.id)
        assert await accounts.user(ADA.id) == ADA

        await accounts.change_user(BOB.id, UserChange(role="admin"))
        await accounts.remove_user(ADA.id)
        assert await accounts.user(ADA.id) is None

    async def test_with_a_user_go_their_logins_and_tokens(self, accounts: Accounts) -> None:
        await accounts.add_user(BOB, password=None)
        await accounts.add_credential(credential(5, BOB))

        await accounts.remove_user(BOB.id)

        assert await accounts.standing((BOB.id,), (id_(5),)) == Standing(users={}, credentials={})
        with pytest.raises(NotFound):
            await accounts.add_credential(credential(6, BOB))
        with pytest.raises(NotFound):
            await accounts.remove_user(BOB.id)

    async def test_set_up_works_once_and_with_its_token_only(self, accounts: Accounts) -> None:
        first = User(id=LOCAL_OWNER, name="ada", role="admin", created_at=NOW)
        await accounts.open_setup(b"1" * 32)
        await accounts.open_setup(b"2" * 32)

        assert not await accounts.set_up(b"3" * 32, first, password=HASH)
        assert await accounts.set_up(b"2" * 32, first, password=HASH)
        with pytest.raises(RuleBroken):
            await accounts.set_up(b"1" * 32, BOB, password=HASH)
        assert list(await accounts.users()) == [first]
        assert await accounts.password_of(LOCAL_OWNER) == HASH

    async def test_credentials_are_listed_by_kind_and_dropped_by_whose_they_are(
        self, accounts: Accounts
    ) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=None)
        tokens = [credential(number, BOB) for number in (7, 8)]
        logins = [credential(number, BOB, "login") for number in (9, 10)]
        for each in (*reversed(tokens), *logins):
            await accounts.add_credential(each)

        assert list(await accounts.credentials(BOB.id, "token")) == tokens
        assert not await accounts.drop_credential(id_(7), user_id=ADA.id, kind="token")
        assert not await accounts.drop_credential(id_(7), user_id=BOB.id, kind="login")
        assert not await accounts.drop_credential("no id", user_id=BOB.id, kind="token")
        assert await accounts.drop_credential(id_(7), user_id=BOB.id, kind="token")
        assert await accounts.drop_credential(id_(9), user_id=BOB.id, kind="login")

        assert list(await accounts.credentials(BOB.id, "token")) == tokens[1:]
        assert list(await accounts.credentials(BOB.id, "login")) == logins[1:]

    async def test_a_login_is_kept_for_the_password_that_is_the_users(
        self, accounts: Accounts
    ) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=f"{HASH} {each.name}")
        login, shown = credential(7, BOB, "login"), f"{HASH} bob"

        assert not await accounts.add_login(login, password=f"{HASH} Ada")
        assert await accounts.add_login(login, password=shown)
        assert list(await accounts.credentials(BOB.id, "login")) == [login]

        await accounts.change_user(BOB.id, UserChange(disabled=True))
        assert not await accounts.add_login(credential(8, BOB, "login"), password=shown)
        await accounts.remove_user(BOB.id)
        assert not await accounts.add_login(credential(8, BOB, "login"), password=shown)

    @pytest.mark.parametrize(
        ("change", "is_left"),
        [
            (UserChange(password="other"), False),  # noqa: S106
            (UserChange(disabled=True), False),
            (UserChange(disabled=False, limits=OwnLimits(turns=1)), True),
        ],
    )
    async def test_who_gets_another_password_or_is_disabled_is_signed_out(
        self, accounts: Accounts, change: UserChange, *, is_left: bool
    ) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=HASH)
        logins, token = (
            [credential(7, BOB, "login"), credential(8, ADA, "login")],
            credential(9, BOB),
        )
        for each in (*logins, token):
            await accounts.add_credential(each)

        await accounts.change_user(BOB.id, change)

        assert list(await accounts.credentials(BOB.id, "login")) == logins[: 1 if is_left else 0]
        assert list(await accounts.credentials(BOB.id, "token")) == [token]
        assert list(await accounts.credentials(ADA.id, "login")) == logins[1:]

    async def test_a_password_is_changed_where_the_old_one_is_the_users(
        self, accounts: Accounts
    ) -> None:
        await accounts.add_user(BOB, password=HASH)
        logins = [credential(number, BOB, "login") for number in (7, 8)]
        for each in logins:
            await accounts.add_credential(each)

        assert not await accounts.change_password(BOB.id, old="other", new="new", but=id_(8))
        assert await accounts.password_of(BOB.id) == HASH
        assert list(await accounts.credentials(BOB.id, "login")) == logins
        assert await accounts.change_password(BOB.id, old=HASH, new="new", but=id_(8))

        assert await accounts.password_of(BOB.id) == "new"
        assert list(await accounts.credentials(BOB.id, "login")) == logins[1:]
        await accounts.change_user(BOB.id, UserChange(disabled=True))
        assert not await accounts.change_password(BOB.id, old="new", new=HASH, but=id_(8))

    async def test_logins_to_nats_are_those_of_users_who_are_not_disabled(
        self, accounts: Accounts
    ) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=None)
        logins = [
            replace(credential(number, whose, "nats"), secret_sha256=b"", nkey=f"U{number}")
            for number, whose in ((7, BOB), (8, ADA), (9, BOB))
        ]
        for each in (*reversed(logins), credential(10, BOB)):
            await accounts.add_credential(each)

        assert list(await accounts.nats_logins()) == logins
        await accounts.change_user(BOB.id, UserChange(disabled=True))
        assert list(await accounts.nats_logins()) == [logins[1]]
        await accounts.change_user(BOB.id, UserChange(disabled=False))
        assert await accounts.drop_credential(id_(7), user_id=BOB.id, kind="nats")
        assert list(await accounts.nats_logins()) == logins[1:]
        await accounts.remove_user(BOB.id)
        assert list(await accounts.nats_logins()) == [logins[1]]

    async def test_standing_has_the_users_of_its_credentials(self, accounts: Accounts) -> None:
        for each in (ADA, BOB):
            await accounts.add_user(each, password=None)
        await accounts.add_credential(credential(7, BOB))
        await accounts.used(id_(7), NOW)

        standing = await accounts.standing((Owner("nobody"),), (id_(7), id_(8), "no id"))

        assert standing.users == {BOB.id: BOB}
        assert {key: found.used_at for key, found in standing.credentials.items()} == {id_(7): NOW}
        assert (await accounts.standing((ADA.id,), ())).users == {ADA.id: ADA}

    async def test_wrong_passwords_are_counted_by_address(self, accounts: Accounts) -> None:
        tries = [
            FailedTry(name_sha256=hash_name(name), at=NOW + timedelta(seconds=at))
            for at, name in enumerate(("ada", "bob", "ada"))
        ]
        for tried in tries:
            await accounts.failed("192.0.2.1", tried)
        await accounts.failed("192.0.2.2", tries[0])

        found = await accounts.failures("192.0.2.1", since=NOW)

        assert sorted(found, key=lambda each: each.at) == tries[1:]
