"""Compose what looks after users, logins and tokens: for a node, a command and a test."""

from msgspec import Struct

from navi.application.accounts.audit_log import AuditLog
from navi.application.accounts.find_principal import FindPrincipal
from navi.application.accounts.known_users import KnownUsers
from navi.application.accounts.manage_tokens import ManageTokens
from navi.application.accounts.manage_users import ManageUsers
from navi.application.accounts.sign_in import SignIn
from navi.application.accounts.user_rights import AuthMode, UserRights
from navi.application.accounts.watch_access import WatchAccess
from navi.application.composition.compose_log_services import LogServices
from navi.domain.vocabulary.principal import Limits
from navi.ports.accounts import Accounts, Passwords


class AccountServices(Struct, frozen=True, kw_only=True):
    """What a process does with users, logins and tokens."""

    audit_log: AuditLog
    rights: UserRights
    find_principal: FindPrincipal
    access: WatchAccess
    sign_in: SignIn
    users: ManageUsers
    tokens: ManageTokens


def compose_accounts(
    services: LogServices,
    accounts: Accounts,
    passwords: Passwords,
    *,
    mode: AuthMode,
    limits: Limits,
    proxy_admins: frozenset[str] = frozenset(),
) -> AccountServices:
    """The services around the users of a log.

    Args:
        limits: of those who were given none of their own.
        proxy_admins: names that are admins where a proxy gives the names.
    """
    clock, ids = services.ports.clock, services.ports.ids
    audit_log = AuditLog(services.records, accounts)
    known = KnownUsers(accounts, clock)
    rights = UserRights(known, mode=mode, limits=limits, proxy_admins=proxy_admins)
    return AccountServices(
        audit_log=audit_log,
        rights=rights,
        find_principal=FindPrincipal(accounts, rights, audit_log, clock, ids),
        access=WatchAccess(accounts, rights, clock),
        sign_in=SignIn(accounts, passwords, audit_log, clock, ids),
        users=ManageUsers(accounts, passwords, audit_log, known, clock, ids),
        tokens=ManageTokens(accounts, passwords, audit_log, clock, ids),
    )
