"""Know admins for a while by what their requests come with, for when nobody can look them up."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from hashlib import sha256

from litestar.types import Scope
from msgspec import Struct

from navi.domain.vocabulary.principal import Principal

# Nobody can be revoked while Postgres is away; but this node alone may be cut off from it. Long enough for an
# alert to be sent and looked at.
KNOWN_SECONDS = 900.0
MAX_KNOWN = 100  # scrapers and browsers; of a kilobyte at the most


class _Known(Struct, frozen=True):
    """An admin, and when they were looked up."""

    principal: Principal
    at: float


class KnownAdmins:
    """Admins who were looked up lately; of what their requests came with only hashes."""

    def __init__(
        self, headers: Collection[str], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Nobody is known yet.

        Args:
            headers: those that say whom a request comes from, in lower case.
        """
        self._headers = frozenset(name.encode() for name in headers)
        self._now = now
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def note(self, scope: Scope, found: Principal | None) -> None:
        """Keep who was found behind a request; whoever is no admin is not known any more."""
        key = self._key(scope)
        self._known.pop(key, None)
        if found is not None and found.role == "admin":
            self._known[key] = _Known(found, self._now())
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def find(self, scope: Scope) -> Principal | None:
        """The admin who was behind such a request within ``KNOWN_SECONDS``."""
        known = self._known.get(self._key(scope))
        if known is None or self._now() - known.at >= KNOWN_SECONDS:
            return None
        return known.principal

    def _key(self, scope: Scope) -> bytes:
        named = sorted(each for each in scope["headers"] if each[0] in self._headers)
        return sha256(repr(named).encode()).digest()
