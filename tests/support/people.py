"""People with accounts, and what their requests come with."""

from datetime import timedelta
from typing import Literal

from msgspec.structs import replace

from navi.application.composition.compose_accounts import AccountServices
from navi.domain.accounts.accounts import User
from navi.domain.vocabulary.principal import CLI_ACTOR, Role, Scope
from navi.http.requests.login_cookie import NAME
from navi.ports.accounts import Accounts

PASSWORD = "correct horse battery"  # noqa: S105  # of everybody in tests
ADDRESS = "192.0.2.1"

Persona = Literal["nobody", "owner", "another", "admin", "read-only", "expired", "disabled"]


class People:
    """An admin, two users and one who was disabled."""

    def __init__(self, services: AccountServices, accounts: Accounts) -> None:
        self.services = services
        self.accounts = accounts
        self.users: dict[str, User] = {}

    async def move_in(self) -> "People":
        """Give them accounts."""
        await self.add("admin", "admin")
        for name in ("owner", "another", "disabled"):
            await self.add(name, "user")
        await self._disable(disabled=True)
        return self

    async def add(self, name: str, role: Role) -> User:
        """Give somebody an account."""
        self.users[name] = await self.services.users.add(
            CLI_ACTOR, name=name, password=PASSWORD, role=role
        )
        return self.users[name]

    async def cookie(self, name: str) -> dict[str, str]:
        """The headers of somebody who has just signed in."""
        return {"cookie": f"{NAME}={await self.secret(name)}"}

    async def secret(self, name: str) -> str:
        """What a new login of somebody is known by."""
        return (await self.services.sign_in.login(name, PASSWORD, ADDRESS)).secret

    async def token(self, name: str, *scopes: Scope) -> dict[str, str]:
        """The headers of a program that acts for somebody."""
        user = self.users[name]
        made = await self.services.tokens.add(
            CLI_ACTOR, user.id, role=user.role, name="program", scopes=scopes, expires_at=None
        )
        return {"authorization": f"Bearer {made.token}"}

    async def headers(self, persona: Persona) -> dict[str, str]:
        """The headers of a request that comes from one of the matrix."""
        match persona:
            case "nobody":
                return {}
            case "owner" | "another" | "admin":
                return await self.cookie(persona)
            case "read-only":
                return await self.token("owner", "read")
            case "expired":
                return await self._expired()
            case "disabled":
                await self._disable(disabled=False)
                cookie = await self.token("disabled", "chat")
                await self._disable(disabled=True)
                return cookie

    async def _expired(self) -> dict[str, str]:
        headers = await self.token("owner", "chat")
        [*_, made] = await self.accounts.credentials(self.users["owner"].id, "token")
        await self.accounts.drop_credential(made.id, user_id=made.user_id, kind="token")
        ended = made.created_at - timedelta(seconds=1)
        await self.accounts.add_credential(replace(made, expires_at=ended))
        return headers

    async def _disable(self, *, disabled: bool) -> None:
        await self.services.users.change(CLI_ACTOR, self.users["disabled"].id, disabled=disabled)
