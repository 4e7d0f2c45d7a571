"""Users, logins and tokens of a node, and of a command beside it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from navi.adapters.passwords import Argon2Passwords
from navi.application.composition.compose_accounts import AccountServices, compose_accounts
from navi.application.composition.compose_log_services import LogServices
from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import Store, attached_store
from navi.settings import Settings


def account_services(settings: Settings, store: Store, services: LogServices) -> AccountServices:
    """What a process does with users, logins and tokens."""
    return compose_accounts(
        services,
        store.accounts,
        Argon2Passwords(),
        mode=settings.auth,
        limits=settings.local_limits if settings.auth == "none" else settings.user_limits,
        proxy_admins=frozenset(settings.proxy_admins),
    )


@asynccontextmanager
async def attached_accounts(settings: Settings) -> AsyncGenerator[AccountServices, None]:
    """The users of a running navi, or of one opened for a command alone.

    Raises:
        LogUnavailable: Postgres does not answer.
        StoreRefused: the database is of another version of navi.
        EmbeddedServerError: the embedded Postgres cannot be had.
    """
    async with attached_store(settings) as store:
        yield account_services(settings, store, command_services(settings, store))
