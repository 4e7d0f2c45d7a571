"""Commands of admins on users: list, add, change, remove."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from navi.application.accounts.audit_log import AuditLog
from navi.application.accounts.known_users import KnownUsers
from navi.domain.accounts.accounts import (
    OwnLimits,
    User,
    UserChange,
    checked_name,
    checked_password,
)
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.events import UserChanged, UserCreated
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner
from navi.domain.vocabulary.principal import Actor, Role
from navi.ports.accounts import Accounts, Passwords
from navi.ports.clock import Clock, Ids


class ManageUsers:
    """Executes commands on users, and writes down who gave them."""

    def __init__(
        self,
        accounts: Accounts,
        passwords: Passwords,
        audit_log: AuditLog,
        known: KnownUsers,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._accounts = accounts
        self._passwords = passwords
        self._known = known
        self._audit_log = audit_log
        self._clock = clock
        self._ids = ids

    async def list(self) -> Sequence[User]:
        """All users, by name."""
        return await self._accounts.users()

    async def find(self, user_id: Owner) -> User:
        """One user.

        Raises:
            NotFound: there is none of that id.
        """
        user = await self._accounts.user(user_id)
        if user is None:
            raise NotFound(f"no user {user_id}")
        return user

    async def named(self, name: str) -> User:
        """The user of an id, or of a name.

        Raises:
            NotFound: there is none.
        """
        user = await user_called(self._accounts, name)
        if user is None:
            raise NotFound(f"no user {name!r}")
        return user

    async def add(self, actor: Actor, *, name: str, password: str, role: Role) -> User:
        """Add a user.

        Raises:
            BadInput: the name or the password is none.
            RuleBroken: the name is taken.
        """
        user = User(
            id=await new_user_id(self._accounts, self._ids, role),
            name=checked_name(name),
            role=role,
            created_at=self._clock.now(),
        )
        hashed = await self._passwords.hash(checked_password("password", password))
        await self._accounts.add_user(user, password=hashed)
        await self._audit_log.write(
            UserCreated(
                by=actor.by, address=actor.address, user_id=user.id, name=user.name, role=role
            )
        )
        return user

    async def change(
        self,
        actor: Actor,
        user_id: Owner,
        *,
        role: Role | None = None,
        disabled: bool | None = None,
        password: str | None = None,
        limits: OwnLimits | None = None,
        default_limits: bool = False,
    ) -> User:
        """Change a user; None leaves a property as it is. Who is disabled, or gets another password, is signed out everywhere.

        Args:
            limits: what is absent of them stays.
            default_limits: the settings' limits hold again, but for those of ``limits``.

        Raises:
            NotFound: there is no such user.
            BadInput: the password is none.
            RuleBroken: no admin would be left.
        """
        own = OwnLimits() if limits is None and default_limits else limits
        given = {"role": role, "disabled": disabled, "password": password, "limits": own}
        changed = tuple(name for name, value in given.items() if value is not None)
        await self.find(user_id)
        hashed = None
        if password is not None:
            hashed = await self._passwords.hash(checked_password("password", password))
        change = UserChange(
            role=role,
            disabled=disabled,
            limits=own,
            default_limits=default_limits,
            password=hashed,
        )
        user = await self._accounts.change_user(user_id, change)
        self._known.forget(user_id)
        if changed:
            await self._audit_log.write(
                UserChanged(
                    by=actor.by,
                    address=actor.address,
                    user_id=user_id,
                    changed=changed,
                    role=UNSET if role is None else role,
                    disabled=UNSET if disabled is None else disabled,
                    limits=UNSET if own is None else msgspec.to_builtins(user.limits),
                )
            )
        return user

    async def remove(self, actor: Actor, user_id: Owner) -> None:
        """Remove a user with all logins and tokens; what they made stays in the log.

        Raises:
            NotFound: there is no such user.
            RuleBroken: no admin would be left; or it is the owner of what was there before accounts,
                whom the next admin would become.
        """
        if user_id == LOCAL_OWNER and await self._accounts.user(user_id) is not None:
            raise RuleBroken(
                f"the user {LOCAL_OWNER!r} owns what was there before accounts, "
                "and can be disabled only"
            )
        await self._accounts.remove_user(user_id)
        self._known.forget(user_id)
        await self._audit_log.write(
            UserChanged(by=actor.by, address=actor.address, user_id=user_id, changed=("deleted",))
        )


async def user_called(accounts: Accounts, text: str) -> User | None:
    """The user of an id, else of a name: somebody may be named like another's id."""
    return await accounts.user(Owner(text)) or await accounts.named(text)


async def new_user_id(accounts: Accounts, ids: Ids, role: Role) -> Owner:
    """The id of a user to be: the first admin owns what was there before accounts."""
    if role == "admin" and await accounts.user(LOCAL_OWNER) is None:
        return LOCAL_OWNER
    return Owner(ids.uuid())
