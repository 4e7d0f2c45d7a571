"""Find whom a login, a token or the word of a proxy stands for."""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from hmac import compare_digest
from typing import Literal

from navi.application.accounts.audit_log import AuditLog
from navi.application.accounts.manage_users import new_user_id
from navi.domain.accounts.accounts import (
    Credential,
    User,
    checked_name,
    hash_secret,
    is_spelled_alike,
    parse_secret,
)
from navi.domain.vocabulary.errors import BadInput, LogUnavailable, RuleBroken
from navi.domain.vocabulary.events import UserCreated
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner
from navi.domain.vocabulary.principal import AuthKind, Limits, Principal, Role
from navi.ports.accounts import Accounts, Standing
from navi.ports.clock import Clock, Ids
from navi.ports.tools import ToolUser

AuthMode = Literal["none", "accounts", "proxy"]

USED_EVERY = timedelta(minutes=1)  # how exactly it is known when a login was used last
RECHECK_SECONDS = 2.0  # between two looks at whether those with open sockets may go on
PROXY = "proxy"  # who makes the users that a proxy names


class FindPrincipal:
    """Finds who asks, and whether they still may.

    Nothing is cached: whoever was disabled or has lost a login is refused with the next request, on
    every node.

    Attributes:
        mode: how people are told apart.
        limits: of those who were given none of their own.
    """

    def __init__(
        self,
        accounts: Accounts,
        audit_log: AuditLog,
        clock: Clock,
        ids: Ids,
        *,
        mode: AuthMode,
        limits: Limits,
        proxy_admins: frozenset[str] = frozenset(),
    ) -> None:
        self.mode: AuthMode = mode
        self._accounts = accounts
        self._audit_log = audit_log
        self._clock = clock
        self._ids = ids
        self.limits = limits
        self._proxy_admins = proxy_admins
        self._watched: Counter[Principal] = Counter()
        self._lost: frozenset[Principal] = frozenset()
        self._looked_at = clock.monotonic()
        self._looking = asyncio.Lock()

    def local(self) -> Principal:
        """The one person, where there are no accounts."""
        return Principal(user_id=LOCAL_OWNER, name=LOCAL_OWNER, role="admin", limits=self.limits)

    async def by_secret(self, text: str, kind: Literal["login", "token"]) -> Principal | None:
        """Whom a token, or the cookie of a login, stands for; None where it is worth nothing.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        presented = parse_secret(text)
        if presented is None:
            return None
        standing = await self._accounts.standing((), (presented.id,))
        found = standing.credentials.get(presented.id)
        if found is None or found.kind != kind:
            return None
        if not compare_digest(found.secret_sha256, hash_secret(presented.secret)):
            return None
        user, now = standing.users.get(found.user_id), self._clock.now()
        if user is None or user.disabled or not found.holds_at(now):
            return None
        if found.used_at is None or now - found.used_at >= USED_EVERY:
            await self._accounts.used(found.id, now)
        return self._principal(user, found, kind)

    async def by_name(self, name: str) -> Principal | None:
        """Whom the proxy names; a name that is not known yet is made a user.

        Raises:
            BadInput: it is no name, or looks like the name of somebody else.
            LogUnavailable: Postgres does not answer.
        """
        name = checked_name(name)
        user = await self._accounts.named(name)
        if user is None:
            user = await self._add(name)
        if not is_spelled_alike(user.name, name):  # to the proxy they are two people
            raise BadInput("name", "looks like that of another user")
        return None if user.disabled else self._principal(user, None, "proxy")

    async def user_of(self, user_id: Owner) -> ToolUser:
        """Whom a tool works for.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        user = None if self.mode == "none" else await self._accounts.user(user_id)
        if user is None:
            return ToolUser(role="admin" if user_id == LOCAL_OWNER else "user", name=user_id)
        return ToolUser(role=self.role_of(user), name=user.name)

    async def limits_of(self, owner: Owner) -> Limits:
        """The port ``UserLimits``: their own where an admin gave them some.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        if self.mode == "none":
            return self.limits
        user = await self._accounts.user(owner)
        return self.limits if user is None else user.limits_with(self.limits)

    async def tokens_a_day(self, owner: Owner) -> int | None:
        """The port ``TokenLimits``: of those limits."""
        return (await self.limits_of(owner)).tokens

    async def may_go_on(self, principal: Principal) -> bool:
        """Whether the principal is as good as when it was found.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        return self.mode == "none" or self._holds(principal, await self._standing((principal,)))

    async def lost(self, principal: Principal) -> None:
        """Wait until the principal is not as good any more as when it was found.

        Whatever the number of those who wait, Postgres is asked once in ``RECHECK_SECONDS``.
        """
        if self.mode == "none":
            await asyncio.Event().wait()
        with self._watching(principal):
            while True:
                await asyncio.sleep(RECHECK_SECONDS)
                async with self._looking:
                    if self._clock.monotonic() - self._looked_at >= RECHECK_SECONDS / 2:
                        await self._look()
                if principal in self._lost:
                    return

    @contextmanager
    def _watching(self, principal: Principal) -> Generator[None, None, None]:
        self._watched[principal] += 1
        try:
            yield
        finally:
            self._watched[principal] -= 1
            if not self._watched[principal]:
                del self._watched[principal]

    async def _look(self) -> None:
        watched = tuple(self._watched)
        try:
            standing = await self._standing(watched)
        except LogUnavailable:
            return  # nobody can have been disabled meanwhile
        self._lost = frozenset(p for p in watched if not self._holds(p, standing))
        self._looked_at = self._clock.monotonic()

    async def _standing(self, principals: tuple[Principal, ...]) -> Standing:
        return await self._accounts.standing(
            {principal.user_id for principal in principals},
            {principal.auth_id for principal in principals if principal.auth_id is not None},
        )

    def _holds(self, principal: Principal, standing: Standing) -> bool:
        user = standing.users.get(principal.user_id)
        if user is None or user.disabled or self.role_of(user) != principal.role:
            return False
        if principal.auth_id is None:
            return True
        found = standing.credentials.get(principal.auth_id)
        return found is not None and found.holds_at(self._clock.now())

    def _principal(self, user: User, found: Credential | None, kind: AuthKind) -> Principal:
        return Principal(
            user_id=user.id,
            name=user.name,
            role=self.role_of(user),
            scope="admin" if found is None else found.scope,
            auth_id=None if found is None else found.id,
            auth_kind=kind,
            limits=user.limits_with(self.limits),
        )

    def role_of(self, user: User) -> Role:
        """What they are: behind a proxy, also those that its setting names are admins."""
        by_proxy = self.mode == "proxy" and self._is_proxy_admin(user.name)
        return "admin" if by_proxy else user.role

    def _is_proxy_admin(self, name: str) -> bool:
        return any(is_spelled_alike(name, admin) for admin in self._proxy_admins)

    async def _add(self, name: str) -> User:
        """A user for the name; their role is what ``NAVI_PROXY_ADMINS`` says at each request."""
        role: Role = "admin" if self._is_proxy_admin(name) else "user"
        user = User(
            id=await new_user_id(self._accounts, self._ids, role),
            name=name,
            role="user",
            created_at=self._clock.now(),
        )
        try:
            await self._accounts.add_user(user, password=None)
        except RuleBroken:  # another request, of the same name or the first admin's, was faster
            return await self._accounts.named(name) or await self._add(name)
        await self._audit_log.write(
            UserCreated(by=PROXY, address=None, user_id=user.id, name=name, role=role)
        )
        return user
