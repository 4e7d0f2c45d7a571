"""Users, their logins and tokens: what they are, and the rules that names, passwords and tries keep."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.errors import BadInput, RuleBroken
from navi.domain.vocabulary.ids import Owner, is_uuid
from navi.domain.vocabulary.principal import Limits, Role, Scope

MIN_PASSWORD, MAX_PASSWORD = 12, 1024  # characters
MAX_NAME = 64  # characters
LOGIN_LASTS = timedelta(days=30)
LOGIN_RESTS = timedelta(days=7)  # without a request; then it has ended
TRY_WINDOW = timedelta(minutes=1)
MAX_TRIES_OF_ACCOUNT = 5  # wrong passwords in the window, of one account from one address
MAX_TRIES_OF_ADDRESS = 20  # likewise, from one address

CredentialKind = Literal["login", "token", "nats"]

_NAME = re.compile(r"[\w.@+'-](?:[\w.@+' -]{0,62}[\w.@+'-])?")
_SECRET = re.compile(r"navi_(?P<id>[0-9a-f-]{36})_(?P<secret>[A-Za-z0-9_-]{43})", re.ASCII)


class OwnLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that an admin gave one user; what is absent is the settings'."""

    turns: int | UnsetType = UNSET
    requests: int | UnsetType = UNSET
    sockets: int | UnsetType = UNSET
    tokens: int | UnsetType | None = UNSET

    def with_change(self, change: "OwnLimits") -> "OwnLimits":
        """These, with what the change has in their place."""
        return OwnLimits(
            turns=self.turns if change.turns is UNSET else change.turns,
            requests=self.requests if change.requests is UNSET else change.requests,
            sockets=self.sockets if change.sockets is UNSET else change.sockets,
            tokens=self.tokens if change.tokens is UNSET else change.tokens,
        )


class User(Struct, frozen=True, kw_only=True):
    """Somebody who may sign in; ``id`` is the owner of what they make."""

    id: Owner
    name: str
    role: Role
    created_at: datetime
    disabled: bool = False
    limits: OwnLimits = OwnLimits()

    def limits_with(self, default: Limits) -> Limits:
        """What holds for them."""
        own = self.limits
        return Limits(
            turns=default.turns if own.turns is UNSET else own.turns,
            requests=default.requests if own.requests is UNSET else own.requests,
            sockets=default.sockets if own.sockets is UNSET else own.sockets,
            tokens=default.tokens if own.tokens is UNSET else own.tokens,
        )


class UserChange(Struct, frozen=True, kw_only=True):
    """What is to be different about a user; None leaves it.

    Attributes:
        limits: likewise: what is absent of them stays.
        default_limits: the settings' limits hold again, but for those of ``limits``.
        password: its hash.
    """

    role: Role | None = None
    disabled: bool | None = None
    limits: OwnLimits | None = None
    default_limits: bool = False
    password: str | None = None

    @property
    def ends_logins(self) -> bool:
        """Whether who has signed in may not go on."""
        return self.password is not None or self.disabled is True


class Credential(Struct, frozen=True, kw_only=True):
    """A login or a token, as it is kept: the secret itself is not.

    Attributes:
        secret_sha256: empty where there is a public key in its place.
        nkey: the public key of a login to NATS.
        scopes: as they were asked for.
        used_at: to the minute.
    """

    id: str
    user_id: Owner
    kind: CredentialKind
    secret_sha256: bytes
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = None
    nkey: str | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether it has not run out."""
        if self.expires_at is not None and now >= self.expires_at:
            return False
        return self.kind != "login" or now < (self.used_at or self.created_at) + LOGIN_RESTS

    @property
    def scope(self) -> Scope:
        """The widest of its scopes, which has the others in it."""
        order: tuple[Scope, ...] = ("admin", "chat", "read")
        return next(scope for scope in order if scope in self.scopes)


class Presented(Struct, frozen=True, kw_only=True):
    """The two parts of a token or a cookie that was sent."""

    id: str
    secret: str


class FailedTry(Struct, frozen=True, kw_only=True):
    """A wrong password from an address; ``name_sha256`` is of the name that it was for."""

    name_sha256: bytes
    at: datetime


def secret_text(credential_id: str, secret: str) -> str:
    """A token, or the value of a cookie, as it is sent."""
    return f"navi_{credential_id}_{secret}"


def parse_secret(text: str) -> Presented | None:
    """The parts of a token or a cookie; None where it is none."""
    match = _SECRET.fullmatch(text)
    if match is None or not is_uuid(match["id"]):
        return None
    return Presented(id=match["id"], secret=match["secret"])


def hash_secret(secret: str) -> bytes:
    """What is kept of a secret of 256 random bits: those need no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


def checked_name(text: str) -> str:
    """A user's name.

    Raises:
        BadInput: it is empty, too long, or has characters that names have not.
    """
    _check_length("name", text, MAX_NAME)
    name = unicodedata.normalize("NFC", text)
    if _NAME.fullmatch(name) is None or "  " in name:
        raise BadInput(
            "name", f"has 1 to {MAX_NAME} letters, digits, inner blanks and any of . @ + - _ '"
        )
    return name


def name_key(name: str) -> str:
    """What names are told apart by: neither case nor width makes another user.

    Raises:
        BadInput: it is longer than any name.
    """
    _check_length("name", name, MAX_NAME)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def is_spelled_alike(one: str, other: str) -> bool:
    """Whether two names are letter for letter the same but for case.

    What has one ``name_key`` need not be: a directory elsewhere may know ``boß`` beside ``boss``.
    """
    return unicodedata.normalize("NFC", one).lower() == unicodedata.normalize("NFC", other).lower()


def typed_password(field: str, text: str) -> str:
    """A password as it is hashed: one keyboard gives ``é`` as one character, another as two.

    Raises:
        BadInput: it is too long for one.
    """
    _check_length(field, text, MAX_PASSWORD)
    return unicodedata.normalize("NFC", text)


def checked_password(field: str, text: str) -> str:
    """A new password, as it is hashed.

    Raises:
        BadInput: it is too short or too long; without the password itself.
    """
    password = typed_password(field, text)
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise BadInput(field, f"has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    return password


def hash_name(name: str) -> bytes:
    """What is kept of a name that was tried: people type passwords there."""
    return hashlib.sha256(name_key(name).encode("utf-8", "replace")).digest()


def retry_after(tries: Iterable[FailedTry], name: str, now: datetime) -> int | None:
    """Seconds until a name may be tried again from the address of these tries; None: now.

    A clock that was ahead, and was set back since, keeps nobody out for longer.
    """
    counted = sorted(
        (each for each in tries if abs(now - each.at) < TRY_WINDOW), key=lambda t: t.at
    )
    wanted = hash_name(name)
    of_account = [each.at for each in counted if each.name_sha256 == wanted]
    waits = [
        at[-most] + TRY_WINDOW - now
        for at, most in (
            (of_account, MAX_TRIES_OF_ACCOUNT),
            ([each.at for each in counted], MAX_TRIES_OF_ADDRESS),
        )
        if len(at) >= most
    ]
    if not waits:
        return None
    return max(1, math.ceil(min(max(waits), TRY_WINDOW).total_seconds()))


def _check_length(field: str, text: str, longest: int) -> None:
    # Before anything is normalised: bringing n combining marks into order takes n² steps, and
    # whoever has not signed in may send a megabyte of them.
    if len(text) > longest:
        raise BadInput(field, f"has {longest} characters at the most")


def changed_user(user: User, change: UserChange) -> User:
    """The user as the change wants them."""
    limits = OwnLimits() if change.default_limits else user.limits
    return User(
        id=user.id,
        name=user.name,
        role=change.role or user.role,
        created_at=user.created_at,
        disabled=user.disabled if change.disabled is None else change.disabled,
        limits=limits if change.limits is None else limits.with_change(change.limits),
    )


def check_admin_left(before: Sequence[User], after: Sequence[User]) -> None:
    """Check that somebody is left who can look after the users.

    Raises:
        RuleBroken: nobody would be, and somebody was.
    """

    def admins(users: Sequence[User]) -> bool:
        return any(user.role == "admin" and not user.disabled for user in users)

    if admins(before) and not admins(after):
        raise RuleBroken("somebody has to remain an admin")
