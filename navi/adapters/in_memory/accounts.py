"""Users, logins and tokens that live as long as the process, for tests."""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from navi.domain.accounts.accounts import (
    TRY_WINDOW,
    Credential,
    CredentialKind,
    FailedTry,
    User,
    UserChange,
    changed_user,
    check_admin_left,
    name_key,
)
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.ids import Owner
from navi.ports.accounts import Standing


class InMemoryAccounts:
    """``Accounts`` without a server."""

    def __init__(self) -> None:
        self._users: dict[Owner, User] = {}
        self._passwords: dict[Owner, str] = {}
        self._credentials: dict[str, Credential] = {}
        self._setups: set[bytes] = set()
        self._failures: list[tuple[str, FailedTry]] = []

    async def any_user(self) -> bool:
        return bool(self._users)

    async def users(self) -> Sequence[User]:
        return sorted(self._users.values(), key=lambda user: name_key(user.name))

    async def user(self, user_id: Owner) -> User | None:
        return self._users.get(user_id)

    async def named(self, name: str) -> User | None:
        key = name_key(name)
        return next((u for u in self._users.values() if name_key(u.name) == key), None)

    async def add_user(self, user: User, *, password: str | None) -> None:
        if user.id in self._users or await self.named(user.name) is not None:
            raise RuleBroken(f"there is a user {user.name!r} already")
        self._users[user.id] = user
        if password is not None:
            self._passwords[user.id] = password

    async def change_user(self, user_id: Owner, change: UserChange) -> User:
        user = changed_user(self._existing(user_id), change)
        after = {**self._users, user_id: user}
        check_admin_left([*self._users.values()], [*after.values()])
        self._users = after
        if change.password is not None:
            self._passwords[user_id] = change.password
        if change.ends_logins:
            self._drop_logins(user_id, but=None)
        return user

    async def remove_user(self, user_id: Owner) -> None:
        self._existing(user_id)
        after = {id_: user for id_, user in self._users.items() if id_ != user_id}
        check_admin_left([*self._users.values()], [*after.values()])
        self._users = after
        self._passwords.pop(user_id, None)
        self._credentials = {id_: c for id_, c in self._credentials.items() if c.user_id != user_id}

    async def password_of(self, user_id: Owner) -> str | None:
        return self._passwords.get(user_id)

    async def change_password(self, user_id: Owner, *, old: str, new: str, but: str) -> bool:
        if not self._is_shown(user_id, old):
            return False
        self._passwords[user_id] = new
        self._drop_logins(user_id, but=but)
        return True

    async def open_setup(self, sha256: bytes) -> None:
        self._setups.add(sha256)

    async def set_up(self, sha256: bytes, user: User, *, password: str) -> bool:
        if self._users:
            raise RuleBroken("navi is set up already")
        if sha256 not in self._setups:
            return False
        self._setups.clear()
        await self.add_user(user, password=password)
        return True

    async def add_credential(self, credential: Credential) -> None:
        self._existing(credential.user_id)
        self._credentials[credential.id] = credential

    async def add_login(self, login: Credential, *, password: str) -> bool:
        if not self._is_shown(login.user_id, password):
            return False
        self._credentials[login.id] = login
        return True

    async def credentials(self, user_id: Owner, kind: CredentialKind) -> Sequence[Credential]:
        found = [c for c in self._credentials.values() if (c.user_id, c.kind) == (user_id, kind)]
        return sorted(found, key=lambda c: (c.created_at, c.id))

    async def drop_credential(
        self, credential_id: str, *, user_id: Owner, kind: CredentialKind
    ) -> bool:
        found = self._credentials.get(credential_id)
        if found is None or (found.user_id, found.kind) != (user_id, kind):
            return False
        del self._credentials[credential_id]
        return True

    async def nats_logins(self) -> Sequence[Credential]:
        found = [
            c
            for c in self._credentials.values()
            if c.kind == "nats" and not self._users[c.user_id].disabled
        ]
        return sorted(found, key=lambda c: (c.created_at, c.id))

    async def used(self, credential_id: str, at: datetime) -> None:
        found = self._credentials.get(credential_id)
        if found is not None:
            self._credentials[credential_id] = replace(found, used_at=at)

    async def standing(
        self, user_ids: Collection[Owner], credential_ids: Collection[str]
    ) -> Standing:
        credentials = {id_: c for id_, c in self._credentials.items() if id_ in credential_ids}
        wanted = {*user_ids, *(c.user_id for c in credentials.values())}
        return Standing(
            users={id_: user for id_, user in self._users.items() if id_ in wanted},
            credentials=credentials,
        )

    async def failed(self, address: str, tried: FailedTry) -> None:
        self._failures = [each for each in self._failures if each[1].at > tried.at - TRY_WINDOW]
        self._failures.append((address, tried))

    async def failures(self, address: str, *, since: datetime) -> Sequence[FailedTry]:
        return [tried for place, tried in self._failures if place == address and tried.at > since]

    def _existing(self, user_id: Owner) -> User:
        user = self._users.get(user_id)
        if user is None:
            raise NotFound(f"no user {user_id}")
        return user

    def _is_shown(self, user_id: Owner, password: str) -> bool:
        user = self._users.get(user_id)
        return user is not None and not user.disabled and self._passwords.get(user_id) == password

    def _drop_logins(self, user_id: Owner, *, but: str | None) -> None:
        self._credentials = {
            id_: c
            for id_, c in self._credentials.items()
            if c.user_id != user_id or c.kind != "login" or id_ == but
        }
