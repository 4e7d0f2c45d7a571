"""The rate limit of requests: a token bucket, filled a little at a time."""

from msgspec import Struct

MINUTE = 60.0  # seconds


class Bucket(Struct, frozen=True):
    """What somebody may still ask for.

    Attributes:
        tokens: one a request; as of ``at``.
        at: seconds on a clock that never goes back.
    """

    tokens: float
    at: float


def take(bucket: Bucket | None, *, per_minute: int, now: float) -> tuple[Bucket, float]:
    """Take one token; gives the bucket and the seconds until there is one, 0 where it was taken.

    A minute's worth may be asked for at once; from then on as fast as the bucket fills.

    Args:
        bucket: None for somebody who has not asked for anything: theirs is full.
    """
    filled = filling(bucket, per_minute=per_minute, now=now)
    if filled >= 1:
        return Bucket(filled - 1, now), 0.0
    return Bucket(filled, now), (1 - filled) * MINUTE / per_minute


def filling(bucket: Bucket | None, *, per_minute: int, now: float) -> float:
    """How many tokens are in a bucket now; never more than a minute's worth."""
    if bucket is None:
        return float(per_minute)
    return min(per_minute, bucket.tokens + (now - bucket.at) * per_minute / MINUTE)
