"""How many requests one may make in a minute."""

from hypothesis import given
from hypothesis import strategies as st

from navi.domain.accounts.request_rate import MINUTE, Bucket, take

RATES = st.integers(1, 10_000)
PAUSES = st.lists(st.floats(0, 20), min_size=1, max_size=200)


def asked(pauses: list[float], rate: int) -> list[float]:
    """When requests were granted that came after these pauses."""
    bucket: Bucket | None = None
    granted, now = list[float](), 0.0
    for pause in pauses:
        now += pause
        bucket, wait = take(bucket, per_minute=rate, now=now)
        if not wait:
            granted.append(now)
    return granted


@given(rate=RATES)
def test_a_minutes_worth_may_be_asked_for_at_once_and_no_more(rate: int) -> None:
    assert len(asked([0.0] * (rate + 5), rate)) == rate


@given(rate=st.integers(1, 30), pauses=PAUSES)
def test_in_no_time_more_is_granted_than_a_full_bucket_and_what_fills_it(
    rate: int, pauses: list[float]
) -> None:
    granted = asked(pauses, rate)

    for first, since in enumerate(granted):
        for count, until in enumerate(granted[first:], start=1):
            assert count <= rate + (until - since) * rate / MINUTE + 1e-6


@given(rate=RATES, pauses=PAUSES)
def test_who_waits_for_as_long_as_they_were_told_is_granted(rate: int, pauses: list[float]) -> None:
    bucket: Bucket | None = None
    now = 0.0
    for pause in pauses:
        now += pause * 0.01
        bucket, wait = take(bucket, per_minute=rate, now=now)
        if wait:
            now += wait + 1e-6
            bucket, again = take(bucket, per_minute=rate, now=now)
            assert again == 0.0


@given(rate=RATES)
def test_a_request_that_is_refused_costs_nothing(rate: int) -> None:
    bucket: Bucket | None = None
    for _ in range(rate):
        bucket, _ = take(bucket, per_minute=rate, now=0.0)
    waits = []
    for _ in range(3):
        bucket, wait = take(bucket, per_minute=rate, now=0.0)
        waits.append(wait)

    assert waits == [MINUTE / rate] * 3
