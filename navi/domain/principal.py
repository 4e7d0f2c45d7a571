"""Who asks: the person or program behind a request, and what it may do."""

from typing import Literal

from msgspec import Struct

from navi.domain.ids import LOCAL_OWNER, Owner

Role = Literal["admin", "user"]
Scope = Literal["read", "chat", "admin"]  # each with those before it

_ORDER: tuple[Scope, ...] = ("read", "chat", "admin")


class Principal(Struct, frozen=True, kw_only=True):
    """Whoever a request was found to come from.

    Attributes:
        user_id: the ``owner`` of what they make.
        scope: what their login or token is good for, at most.
        auth_id: of the login or token; None where there are no accounts.
    """

    user_id: Owner
    name: str
    role: Role
    scope: Scope = "admin"
    auth_id: str | None = None

    def has(self, scope: Scope) -> bool:
        """Whether this login or token is good for ``scope``."""
        return _ORDER.index(self.scope) >= _ORDER.index(scope)

    @property
    def is_admin(self) -> bool:
        """Whether they may do now what only admins may."""
        return self.role == "admin" and self.scope == "admin"


LOCAL_PRINCIPAL = Principal(user_id=LOCAL_OWNER, name="local", role="admin")
