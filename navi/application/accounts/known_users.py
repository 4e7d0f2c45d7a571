"""Users as they were a moment ago, for what each turn asks about its owner several times."""

from collections import OrderedDict

from msgspec import Struct

from navi.domain.accounts.accounts import User
from navi.domain.vocabulary.ids import Owner
from navi.ports.accounts import Accounts
from navi.ports.clock import Clock

# A change holds in every process within five seconds, sockets included (``RECHECK_SECONDS``). A second is
# enough to ask once for what begins a turn: a place in line, budgets, the first tools.
KEPT_SECONDS = 1.0
MAX_KEPT = 10_000  # users, of a kilobyte at the most


class _Kept(Struct, frozen=True):
    """What Postgres said of a user, and when it was asked."""

    user: User | None
    asked_at: float


class KnownUsers:
    """Users by id, asked for once in ``KEPT_SECONDS``; never for whether somebody may come in."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._kept: OrderedDict[Owner, _Kept] = OrderedDict()

    async def user(self, user_id: Owner) -> User | None:
        """The user of an id, as at most ``KEPT_SECONDS`` ago.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        now = self._clock.monotonic()
        kept = self._kept.get(user_id)
        if kept is None or now - kept.asked_at >= KEPT_SECONDS:
            # As of the question, not of the answer: what changed meanwhile may not be in it.
            kept = _Kept(await self._accounts.user(user_id), now)
            self._kept[user_id] = kept
            self._kept.move_to_end(user_id)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept.user

    def forget(self, user_id: Owner) -> None:
        """Ask for a user anew: this process has changed them."""
        self._kept.pop(user_id, None)
