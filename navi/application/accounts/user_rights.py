"""What users are and may use: their role, whom tools work for, their limits."""

from typing import Literal

from navi.application.accounts.known_users import KnownUsers
from navi.domain.accounts.accounts import User, is_spelled_alike
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner
from navi.domain.vocabulary.principal import Limits, Role
from navi.ports.tools import ToolUser

AuthMode = Literal["none", "accounts", "proxy"]


class UserRights:
    """Roles and limits of users.

    Attributes:
        mode: how people are told apart.
        limits: of those who were given none of their own.
    """

    def __init__(
        self,
        users: KnownUsers,
        *,
        mode: AuthMode,
        limits: Limits,
        proxy_admins: frozenset[str] = frozenset(),
    ) -> None:
        self._users = users
        self.mode: AuthMode = mode
        self.limits = limits
        self._proxy_admins = proxy_admins

    def role_of(self, user: User) -> Role:
        """What they are: behind a proxy, also those that its setting names are admins."""
        by_proxy = self.mode == "proxy" and self.is_proxy_admin(user.name)
        return "admin" if by_proxy else user.role

    def is_proxy_admin(self, name: str) -> bool:
        """Whether the setting names them as one."""
        return any(is_spelled_alike(name, admin) for admin in self._proxy_admins)

    async def user_of(self, user_id: Owner) -> ToolUser:
        """Whom a tool works for.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        user = None if self.mode == "none" else await self._users.user(user_id)
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
        user = await self._users.user(owner)
        return self.limits if user is None else user.limits_with(self.limits)

    async def tokens_a_day(self, owner: Owner) -> int | None:
        """The port ``TokenLimits``: of those limits."""
        return (await self.limits_of(owner)).tokens
