"""Notice revoked access: at each command, and while a socket is open."""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from navi.application.accounts.user_rights import UserRights
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.principal import Principal
from navi.ports.accounts import Accounts, Standing
from navi.ports.clock import Clock

RECHECK_SECONDS = 2.0  # between two looks at whether those with open sockets may go on


class WatchAccess:
    """Tells when a login or a token has ended, or its user is not what they were."""

    def __init__(self, accounts: Accounts, rights: UserRights, clock: Clock) -> None:
        self._accounts = accounts
        self._rights = rights
        self._clock = clock
        self._watched: Counter[Principal] = Counter()
        self._lost: frozenset[Principal] = frozenset()
        self._looked_at = clock.monotonic()
        self._looking = asyncio.Lock()

    async def may_go_on(self, principal: Principal) -> bool:
        """Whether the principal is as good as when it was found.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        return self._rights.mode == "none" or self._holds(
            principal, await self._standing((principal,))
        )

    async def lost(self, principal: Principal) -> None:
        """Wait until the principal is not as good any more as when it was found.

        Whatever the number of those who wait, Postgres is asked once in ``RECHECK_SECONDS``.
        """
        if self._rights.mode == "none":
            await asyncio.get_running_loop().create_future()  # nobody is ever sent away
        with self._watching(principal):
            while True:
                await asyncio.sleep(RECHECK_SECONDS)
                async with self._looking:
                    if self._clock.monotonic() - self._looked_at >= RECHECK_SECONDS / 2:
                        await self._look()
                if principal in self._lost:
                    return

    @contextmanager
    def _watching(self, principal: Principal) -> Generator[None, None, None]:
        self._watched[principal] += 1
        try:
            yield
        finally:
            self._watched[principal] -= 1
            if not self._watched[principal]:
                del self._watched[principal]

    async def _look(self) -> None:
        watched = tuple(self._watched)
        try:
            standing = await self._standing(watched)
        except LogUnavailable:
            return  # nobody can have been disabled meanwhile
        self._lost = frozenset(p for p in watched if not self._holds(p, standing))
        self._looked_at = self._clock.monotonic()

    async def _standing(self, principals: tuple[Principal, ...]) -> Standing:
        return await self._accounts.standing(
            {principal.user_id for principal in principals},
            {principal.auth_id for principal in principals if principal.auth_id is not None},
        )

    def _holds(self, principal: Principal, standing: Standing) -> bool:
        user = standing.users.get(principal.user_id)
        if user is None or user.disabled or self._rights.role_of(user) != principal.role:
            return False
        if principal.auth_id is None:
            return True
        found = standing.credentials.get(principal.auth_id)
        return found is not None and found.holds_at(self._clock.now())
