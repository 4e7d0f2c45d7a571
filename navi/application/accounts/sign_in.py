"""Set navi up, sign in and out, change one's password."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn
from weakref import WeakValueDictionary

from msgspec import Struct

from navi.application.accounts.audit_log import AuditLog
from navi.domain.accounts.accounts import (
    LOGIN_LASTS,
    TRY_WINDOW,
    Credential,
    FailedTry,
    User,
    checked_name,
    checked_password,
    hash_name,
    hash_secret,
    retry_after,
    secret_text,
    typed_password,
)
from navi.domain.vocabulary.errors import NotSignedIn, RuleBroken, TooManyTries
from navi.domain.vocabulary.events import (
    LoggedOut,
    LoginFailed,
    LoginSucceeded,
    UserChanged,
    UserCreated,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER
from navi.domain.vocabulary.principal import Principal
from navi.ports.accounts import Accounts, Passwords
from navi.ports.clock import Clock, Ids

WRONG = "the name or the password is wrong"
NOWHERE = "unknown"  # the address of whoever comes over a socket without one


class NewLogin(Struct, frozen=True, kw_only=True):
    """Somebody has signed in; ``secret`` is what their browser keeps."""

    user: User
    secret: str


class SignIn:
    """Signs people in, by name and password.

    Wrong passwords are counted in Postgres, for all nodes. Of one address a node looks at one password
    at a time, so that guesses sent at once are counted like others.
    """

    def __init__(
        self,
        accounts: Accounts,
        passwords: Passwords,
        audit_log: AuditLog,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._accounts = accounts
        self._passwords = passwords
        self._audit_log = audit_log
        self._clock = clock
        self._ids = ids
        self._at_work: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open_setup(self) -> str | None:
        """A token that sets navi up once; None where there is a user.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        return await open_setup(self._accounts, self._passwords)

    async def set_up(self, token: str, name: str, password: str, address: str | None) -> NewLogin:
        """Make the first user, an admin whose id is that of the one person there was before.

        Raises:
            BadInput: the name or the password is none.
            NotSignedIn: the token is none.
            RuleBroken: there is a user already.
        """
        name, password = checked_name(name), checked_password("password", password)
        user = User(id=LOCAL_OWNER, name=name, role="admin", created_at=self._clock.now())
        if await self._accounts.any_user():
            raise RuleBroken("navi is set up already")
        hashed = await self._passwords.hash(password)
        if not await self._accounts.set_up(hash_secret(token), user, password=hashed):
            raise NotSignedIn("the set-up link is not good any more; a new one is printed at start")
        await self._audit_log.write(
            UserCreated(by=user.id, address=address, user_id=user.id, name=name, role=user.role)
        )
        return await self._new_login(user, hashed, address)

    async def login(self, name: str, password: str, address: str | None) -> NewLogin:
        """Sign in by name and password.

        Raises:
            BadInput: the name or the password is too long for one.
            NotSignedIn: there is no such user, or not any more, or the password is another.
            TooManyTries: too many wrong ones came from this address.
        """
        password = typed_password("password", password)
        place = address or NOWHERE
        async with self._one_at_a_time(place, name):
            user = await self._accounts.named(name)
            hashed = None if user is None else await self._accounts.password_of(user.id)
            is_right = await self._passwords.verify(password, hashed)
            if user is None or hashed is None or not is_right or user.disabled:
                await self._count(place, name)
                await self._write_failure(user, address, is_right=is_right)
                raise NotSignedIn(WRONG)
        return await self._new_login(user, hashed, address)

    async def logout(self, principal: Principal, address: str | None) -> None:
        """End the login that the request came with.

        Raises:
            RuleBroken: it came with none.
        """
        login_id = _login_of(principal)
        if await self._accounts.drop_credential(login_id, user_id=principal.user_id, kind="login"):
            await self._audit_log.write(
                LoggedOut(
                    by=principal.user_id,
                    address=address,
                    user_id=principal.user_id,
                    login_id=login_id,
                )
            )

    async def change_password(
        self, principal: Principal, old: str, new: str, address: str | None
    ) -> None:
        """Change one's own password; all other logins end.

        Raises:
            BadInput: the new one is none, or the old one too long for one.
            NotSignedIn: the old one is another.
            TooManyTries: too many wrong ones came from this address.
            RuleBroken: it was not asked with a login.
        """
        login_id = _login_of(principal)
        old, new = typed_password("old", old), checked_password("new", new)
        place = address or NOWHERE
        async with self._one_at_a_time(place, principal.name):
            hashed = await self._accounts.password_of(principal.user_id)
            if not await self._passwords.verify(old, hashed) or hashed is None:
                await self._count(place, principal.name)
                await self._refuse_old(principal, address)
        changed = await self._accounts.change_password(
            principal.user_id, old=hashed, new=await self._passwords.hash(new), but=login_id
        )
        if not changed:  # an admin has been faster
            await self._refuse_old(principal, address)
        await self._audit_log.write(
            UserChanged(
                by=principal.user_id,
                address=address,
                user_id=principal.user_id,
                changed=("password",),
            )
        )

    async def _refuse_old(self, principal: Principal, address: str | None) -> NoReturn:
        user = await self._accounts.user(principal.user_id)
        await self._write_failure(user, address, is_right=False)
        raise NotSignedIn("the old password is wrong")

    @asynccontextmanager
    async def _one_at_a_time(self, place: str, name: str) -> AsyncGenerator[None, None]:
        """Look at a password from this address, unless too many were wrong."""
        await self._check(place, name)
        lock = self._at_work.setdefault(place, asyncio.Lock())
        async with lock:
            await self._check(place, name)
            yield

    async def _check(self, place: str, name: str) -> None:
        now = self._clock.now()
        tries = await self._accounts.failures(place, since=now - TRY_WINDOW)
        wait = retry_after(tries, name, now)
        if wait is not None:
            raise TooManyTries(wait)

    async def _count(self, place: str, name: str) -> None:
        """Count a wrong password; where others were counted meanwhile, it was one too many."""
        await self._check(place, name)
        tried = FailedTry(name_sha256=hash_name(name), at=self._clock.now())
        await self._accounts.failed(place, tried)

    async def _write_failure(
        self, user: User | None, address: str | None, *, is_right: bool
    ) -> None:
        known = None if user is None else user.id
        reason = "unknown" if user is None else "disabled" if is_right else "password"
        await self._audit_log.write(
            LoginFailed(by=None, address=address, user_id=known, reason=reason)
        )

    async def _new_login(self, user: User, hashed: str, address: str | None) -> NewLogin:
        now, secret = self._clock.now(), self._passwords.secret()
        login = Credential(
            id=self._ids.uuid(),
            user_id=user.id,
            kind="login",
            secret_sha256=hash_secret(secret),
            name="",
            scopes=("admin",),  # what a user may, the role says
            created_at=now,
            expires_at=now + LOGIN_LASTS,
        )
        if not await self._accounts.add_login(login, password=hashed):
            # The password was changed, or the user disabled, while it was looked at.
            await self._write_failure(user, address, is_right=False)
            raise NotSignedIn(WRONG)
        await self._audit_log.write(
            LoginSucceeded(by=user.id, address=address, user_id=user.id, login_id=login.id)
        )
        return NewLogin(user=user, secret=secret_text(login.id, secret))


def _login_of(principal: Principal) -> str:
    if principal.auth_kind != "login" or principal.auth_id is None:
        raise RuleBroken("this is for those who have signed in with a password")
    return principal.auth_id


async def open_setup(accounts: Accounts, passwords: Passwords) -> str | None:
    """A token that sets navi up once; None where there is a user.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    if await accounts.any_user():
        return None
    token = passwords.secret()
    await accounts.open_setup(hash_secret(token))
    return token
