"""Users, logins and tokens, as they are kept; and the hashing of passwords."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from navi.domain.accounts.accounts import Credential, CredentialKind, FailedTry, User, UserChange
from navi.domain.vocabulary.ids import Owner


class Standing(Struct, frozen=True, kw_only=True):
    """What is left of some users and credentials."""

    users: Mapping[Owner, User]
    credentials: Mapping[str, Credential]


class Accounts(Protocol):
    """Who may sign in, and with what; all nodes see the same.

    Every method raises ``LogUnavailable`` where Postgres does not answer.
    """

    # --- users ---

    async def any_user(self) -> bool:
        """Whether there is a user at all."""
        ...

    async def users(self) -> Sequence[User]:
        """All users, by name."""
        ...

    async def user(self, user_id: Owner) -> User | None:
        """One user."""
        ...

    async def named(self, name: str) -> User | None:
        """The user of a name, however it is cased."""
        ...

    async def add_user(self, user: User, *, password: str | None) -> None:
        """Add a user, with the hash of a password or without one.

        Raises:
            RuleBroken: the id or the name is taken.
        """
        ...

    async def change_user(self, user_id: Owner, change: UserChange) -> User:
        """Change a user; with another password, or once disabled, all their logins have ended.

        Raises:
            NotFound: there is none of that id.
            RuleBroken: no admin would be left.
        """
        ...

    async def remove_user(self, user_id: Owner) -> None:
        """Remove a user with all logins and tokens.

        Raises:
            NotFound: there is none of that id.
            RuleBroken: no admin would be left.
        """
        ...

    async def password_of(self, user_id: Owner) -> str | None:
        """The hash of a user's password; None without one."""
        ...

    async def change_password(self, user_id: Owner, *, old: str, new: str, but: str) -> bool:
        """Replace the hash of a password, and end all logins of the user except one.

        False, and nothing is changed, where ``old`` is not the hash any more, or the user is disabled.
        """
        ...

    # --- set-up ---

    async def open_setup(self, sha256: bytes) -> None:
        """Keep the hash of a token for the first set-up."""
        ...

    async def set_up(self, sha256: bytes, user: User, *, password: str) -> bool:
        """Add the first user; False where the token is none. All such tokens are then void.

        Raises:
            RuleBroken: there is a user already.
        """
        ...

    # --- logins and tokens ---

    async def add_credential(self, credential: Credential) -> None:
        """Keep a token, or a login whatever was shown for it.

        Raises:
            NotFound: there is no such user.
        """
        ...

    async def add_login(self, login: Credential, *, password: str) -> bool:
        """Keep a login of somebody who has shown the password of a hash.

        False, and none is kept, where that is not the user's hash any more, or they are disabled or removed.
        """
        ...

    async def credentials(self, user_id: Owner, kind: CredentialKind) -> Sequence[Credential]:
        """A user's logins or tokens, oldest first."""
        ...

    async def drop_credential(
        self, credential_id: str, *, user_id: Owner, kind: CredentialKind
    ) -> bool:
        """End a user's login or revoke a token; whether there was one."""
        ...

    async def nats_logins(self) -> Sequence[Credential]:
        """Logins to NATS of users who are not disabled, oldest first; those that have run out too."""
        ...

    async def used(self, credential_id: str, at: datetime) -> None:
        """Note when a login or a token was used last."""
        ...

    async def standing(
        self, user_ids: Collection[Owner], credential_ids: Collection[str]
    ) -> Standing:
        """What there is of these users and credentials, of one moment; also the credentials' users."""
        ...

    # --- wrong passwords ---

    async def failed(self, address: str, tried: FailedTry) -> None:
        """Note a wrong password; what is older than its window may be forgotten."""
        ...

    async def failures(self, address: str, *, since: datetime) -> Sequence[FailedTry]:
        """The wrong passwords from an address."""
        ...


class Passwords(Protocol):
    """Hashes passwords, a few at a time and not in the event loop."""

    async def hash(self, password: str) -> str:
        """The hash to keep."""
        ...

    async def verify(self, password: str, hashed: str | None) -> bool:
        """Whether the password is the one; without a hash no, after the time that looking takes."""
        ...

    def secret(self) -> str:
        """256 random bits, as 43 characters of base64url."""
        ...
