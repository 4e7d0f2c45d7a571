"""Authenticate: find the user behind a login, a token or the header of a proxy."""

from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Literal

import structlog

from navi.application.accounts.audit_log import AuditLog
from navi.application.accounts.manage_users import new_user_id
from navi.application.accounts.user_rights import AuthMode, UserRights
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
from navi.domain.vocabulary.ids import LOCAL_OWNER
from navi.domain.vocabulary.principal import AuthKind, Principal, Role
from navi.ports.accounts import Accounts
from navi.ports.clock import Clock, Ids

log = structlog.get_logger()

USED_EVERY = timedelta(minutes=1)  # how exactly it is known when a login was used last
PROXY = "proxy"  # who makes the users that a proxy names


class FindPrincipal:
    """Finds who asks.

    Nothing is cached: whoever was disabled or has lost a login is refused with the next request, on
    every node.
    """

    def __init__(
        self, accounts: Accounts, rights: UserRights, audit_log: AuditLog, clock: Clock, ids: Ids
    ) -> None:
        self._accounts = accounts
        self._rights = rights
        self._audit_log = audit_log
        self._clock = clock
        self._ids = ids
        self._note_again = 0.0  # on the monotonic clock

    @property
    def mode(self) -> AuthMode:
        """How people are told apart."""
        return self._rights.mode

    def local(self) -> Principal:
        """The one person, where there are no accounts."""
        return Principal(
            user_id=LOCAL_OWNER, name=LOCAL_OWNER, role="admin", limits=self._rights.limits
        )

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
            await self._note_use(found, now)
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

    async def _note_use(self, found: Credential, now: datetime) -> None:
        if self._clock.monotonic() < self._note_again:
            return
        try:
            await self._accounts.used(found.id, now)
        except LogUnavailable:  # with a full disk, or read-only, Postgres still says who it is
            # What has failed takes its time and a connection: not of every request.
            self._note_again = self._clock.monotonic() + USED_EVERY.total_seconds()
            log.warning("use_not_noted", credential=found.id)

    def _principal(self, user: User, found: Credential | None, kind: AuthKind) -> Principal:
        return Principal(
            user_id=user.id,
            name=user.name,
            role=self._rights.role_of(user),
            scope="admin" if found is None else found.scope,
            auth_id=None if found is None else found.id,
            auth_kind=kind,
            limits=user.limits_with(self._rights.limits),
        )

    async def _add(self, name: str) -> User:
        """A user for the name; their role is what ``NAVI_PROXY_ADMINS`` says at each request."""
        role: Role = "admin" if self._rights.is_proxy_admin(name) else "user"
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
