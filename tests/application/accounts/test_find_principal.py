"""Who asks, where the store takes no note of it."""

from datetime import datetime, timedelta
from pathlib import Path

from navi.adapters.in_memory.accounts import InMemoryAccounts
from navi.application.accounts.find_principal import USED_EVERY
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.principal import CLI_ACTOR
from tests.support.agent_node import WORLDS, World, agent_node
from tests.support.manual_clock import ManualClock
from tests.support.people import PASSWORD

HALF = USED_EVERY.total_seconds() / 2


class AccountsThatOnlyRead(InMemoryAccounts):
    """Accounts that are known, and of whose logins no use can be noted.

    Attributes:
        noted: when that was tried.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[datetime] = []

    async def used(self, credential_id: str, at: datetime) -> None:
        del credential_id
        self.noted.append(at)
        raise LogUnavailable("Postgres does not answer")


async def test_a_use_that_cannot_be_noted_refuses_nobody_and_is_tried_once_a_minute(
    tmp_path: Path,
) -> None:
    world, accounts, clock = World(), AccountsThatOnlyRead(), ManualClock()
    WORLDS.remove(world)  # the audit log is all there is, and no node has run that
    world.accounts = accounts
    async with agent_node(world, tmp_path, [], auth="accounts", clock=clock) as node:
        services = node.accounts
        ada = await services.users.add(CLI_ACTOR, name="ada", password=PASSWORD, role="user")
        secrets = [(await services.sign_in.login("ada", PASSWORD, None)).secret for _ in "ab"]
        start = clock.now()

        for _ in range(3):
            for secret in secrets:
                principal = await services.find_principal.by_secret(secret, "login")
                assert principal is not None
                assert principal.user_id == ada.id
            clock.wind(HALF)

    assert accounts.noted == [start, start + timedelta(seconds=2 * HALF)]
