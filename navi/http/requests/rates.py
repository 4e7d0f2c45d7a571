"""Limit what each user asks of this process: requests a minute, and sockets open at once.

Counted by each node for itself: a user of N nodes may ask N times as much. To count together would cost every
request a way to a server that all share.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from navi.domain.accounts import request_rate
from navi.domain.accounts.request_rate import Bucket
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Principal
from navi.http.requests.errors import RETRY_SECONDS, Limited

MAX_BUCKETS = 10_000  # above it those that are full again are thrown away: they say nothing


class Rates:
    """Counts the requests and sockets of each user."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._buckets: dict[Owner, Bucket] = {}
        self._sockets = Counter[Owner]()

    def count_request(self, principal: Principal) -> None:
        """Count a request, or a frame that asks for something.

        Raises:
            Limited: it is one too many; it does not count.
        """
        most = principal.limits.requests
        if most is None:
            return
        bucket, seconds = request_rate.take(
            self._buckets.get(principal.user_id), per_minute=most, now=self._now()
        )
        self._buckets[principal.user_id] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._forget_full(most)
        if seconds > 0:
            raise Limited(
                f"more than {most} requests a minute; try again later",
                retry_after=math.ceil(seconds),
            )

    @contextmanager
    def socket(self, principal: Principal) -> Generator[None, None, None]:
        """Count a socket for as long as the block runs.

        Raises:
            Limited: it is one too many.
        """
        most, owner = principal.limits.sockets, principal.user_id
        if most is not None and self._sockets[owner] >= most:
            raise Limited(
                f"{most} sockets are open already; close one, or try again later",
                retry_after=RETRY_SECONDS,
            )
        self._sockets[owner] += 1
        try:
            yield
        finally:
            self._sockets[owner] -= 1
            if not self._sockets[owner]:
                del self._sockets[owner]

    def _forget_full(self, most: int) -> None:
        now = self._now()
        self._buckets = {
            owner: bucket
            for owner, bucket in self._buckets.items()
            if request_rate.filling(bucket, per_minute=most, now=now) < most
        }
