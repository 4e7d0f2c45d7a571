"""Who asks: the person or program behind a request, and what it may do."""

from typing import Literal

from msgspec import Struct

from navi.domain.vocabulary.ids import Owner

Role = Literal["admin", "user"]
AuthKind = Literal["none", "login", "token", "proxy"]
Scope = Literal["read", "chat", "admin"]  # each with those before it

# The highest limits that can be set, in the settings or for one user.
MAX_TURNS = 10_000  # each is a number that Postgres is asked to lock
MAX_REQUESTS = 10**9
MAX_SOCKETS = 10**6
MAX_TOKENS = 10**12

_ORDER: tuple[Scope, ...] = ("read", "chat", "admin")


class Limits(Struct, frozen=True, kw_only=True):
    """What one user may use at once, or in a time; None: as much as they like.

    Attributes:
        turns: that run at once; more wait, queued.
        requests: a minute.
        sockets: open at once.
        tokens: of models, a day (UTC).
    """

    turns: int | None
    requests: int | None
    sockets: int | None
    tokens: int | None


DEFAULT_LIMITS = Limits(turns=4, requests=600, sockets=20, tokens=None)
NO_LIMITS = Limits(turns=None, requests=None, sockets=None, tokens=None)


class Principal(Struct, frozen=True, kw_only=True):
    """Whoever a request was found to come from.

    Attributes:
        user_id: the ``owner`` of what they make.
        scope: what their login or token is good for, at most.
        auth_id: of the login or token; None where there is none.
        auth_kind: how it is known who they are.
        limits: their own where an admin gave them some, else the settings'.
    """

    user_id: Owner
    name: str
    role: Role
    scope: Scope = "admin"
    auth_id: str | None = None
    auth_kind: AuthKind = "none"
    limits: Limits = DEFAULT_LIMITS

    def has(self, scope: Scope) -> bool:
        """Whether this login or token is good for ``scope``."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)

    @property
    def is_admin(self) -> bool:
        """Whether they may do now what only admins may."""
        return self.role == "admin" and self.scope == "admin"


class Actor(Struct, frozen=True, kw_only=True):
    """Who does something that is written to the audit log, and from where.

    Attributes:
        by: the id of a user, or one of navi's own names.
        address: of the client; None where it came over no network.
    """

    by: str
    address: str | None


CLI_ACTOR = Actor(by="admin@cli", address=None)  # whoever has the server's data is its admin
