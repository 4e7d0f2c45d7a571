"""Commands on tokens: list, make, revoke."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET, Struct

from navi.application.accounts.audit_log import AuditLog
from navi.domain.accounts.accounts import Credential, CredentialKind, hash_secret, secret_text
from navi.domain.accounts.nats_logins import NatsLogin
from navi.domain.vocabulary.errors import BadInput, Forbidden, NotFound
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.events import TokenCreated, TokenRevoked
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Actor, Role, Scope
from navi.ports.accounts import Accounts, Passwords
from navi.ports.clock import Clock, Ids

MAX_TOKENS = 100  # of one user
_KINDS: tuple[CredentialKind, ...] = ("token", "nats")


class NewToken(Struct, frozen=True, kw_only=True):
    """A token that was made; ``token`` is shown this once."""

    id: str
    token: str


class ManageTokens:
    """Executes commands on tokens, and writes down who gave them."""

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

    async def list(self, user_id: Owner) -> Sequence[Credential]:
        """A user's tokens and logins to NATS, oldest first; those that have run out too."""
        found = [
            *await self._accounts.credentials(user_id, "token"),
            *await self._accounts.credentials(user_id, "nats"),
        ]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def add(
        self,
        actor: Actor,
        user_id: Owner,
        *,
        role: Role,
        name: str,
        scopes: Sequence[Scope],
        expires_at: datetime | None,
    ) -> NewToken:
        """Make a token for a user of a role.

        Raises:
            BadInput: it has no scope, or has expired already, or there are too many.
            Forbidden: the scope is for admins.
        """
        if not scopes:
            raise BadInput("scopes", "is empty")
        if "admin" in scopes and role != "admin":
            raise Forbidden("the scope 'admin' is for tokens of admins")
        secret = self._passwords.secret()
        token = Credential(
            id=self._ids.uuid(),
            user_id=user_id,
            kind="token",
            secret_sha256=hash_secret(secret),
            name=name,
            scopes=tuple(dict.fromkeys(scopes)),
            created_at=self._clock.now(),
            expires_at=expires_at,
        )
        await self._keep(actor, token)
        return NewToken(id=token.id, token=secret_text(token.id, secret))

    async def add_nats(
        self, actor: Actor, user_id: Owner, *, name: str, nkey: str, expires_at: datetime | None
    ) -> NatsLogin:
        """Let whoever has the key read a user's events on NATS.

        Raises:
            BadInput: it has expired already, or there are too many.
        """
        login = Credential(
            id=self._ids.uuid(),
            user_id=user_id,
            kind="nats",
            secret_sha256=b"",
            name=name,
            scopes=("read",),
            created_at=self._clock.now(),
            expires_at=expires_at,
            nkey=nkey,
        )
        await self._keep(actor, login)
        return NatsLogin(id=login.id, owner=user_id, nkey=nkey)

    async def revoke(self, actor: Actor, user_id: Owner, token_id: str) -> None:
        """Revoke a token of a user.

        Raises:
            NotFound: the user has no such token.
        """
        dropped = [
            await self._accounts.drop_credential(token_id, user_id=user_id, kind=kind)
            for kind in _KINDS
        ]
        if not any(dropped):
            raise NotFound(f"no token {token_id}")
        await self._audit_log.write(
            TokenRevoked(by=actor.by, address=actor.address, user_id=user_id, token_id=token_id)
        )

    async def owner_of(self, token_id: str) -> Owner:
        """Whose token it is.

        Raises:
            NotFound: there is no such token.
        """
        found = (await self._accounts.standing((), (token_id,))).credentials.get(token_id)
        if found is None or found.kind not in _KINDS:
            raise NotFound(f"no token {token_id}")
        return found.user_id

    async def _keep(self, actor: Actor, made: Credential) -> None:
        if made.expires_at is not None and made.expires_at <= made.created_at:
            raise BadInput("expires_at", "has passed")
        if len(await self.list(made.user_id)) >= MAX_TOKENS:
            raise BadInput("name", f"a user has {MAX_TOKENS} tokens at the most")
        await self._accounts.add_credential(made)
        await self._audit_log.write(
            TokenCreated(
                by=actor.by,
                address=actor.address,
                user_id=made.user_id,
                token_id=made.id,
                name=made.name,
                scopes=made.scopes,
                expires_at=None if made.expires_at is None else format_at(made.expires_at),
                nkey=UNSET if made.nkey is None else made.nkey,
            )
        )


async def nats_logins(accounts: Accounts, clock: Clock) -> Sequence[NatsLogin]:
    """Who may read on NATS now, oldest first.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    now = clock.now()
    return [
        NatsLogin(id=found.id, owner=found.user_id, nkey=found.nkey)
        for found in await accounts.nats_logins()
        if found.nkey is not None and found.holds_at(now)
    ]
