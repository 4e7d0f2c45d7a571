"""What calls came to, added up, and what they cost."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.spending.call_tokens import estimate, tokens_of, was_read
from navi.domain.spending.prices import parse_prices, price_of
from navi.domain.spending.usage import By, Tally, Used, report
from navi.domain.vocabulary.errors import BadInput, FailureKind, ModelFailure
from navi.domain.vocabulary.events import ModelCallFailed, ModelReplied, Usage
from navi.domain.vocabulary.ids import CallId

PRICES = parse_prices(
    b"""{"gpt-4o": {"prompt": 2.5, "completion": 10, "currency": "USD"},
         "gpt-*": {"prompt": 1, "completion": 2, "currency": "USD"},
         "mistral*": {"prompt": 4, "completion": 8, "currency": "EUR"}}"""
)
COUNTS = st.integers(0, 10**9)
MODELS = ("gpt-4o", "gpt-5", "mistral-large", "qwen3")

TALLIES = st.builds(
    Tally,
    calls=COUNTS,
    failed=COUNTS,
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    cached_tokens=st.none() | COUNTS,
    estimated=COUNTS,
)
USED = st.builds(Used, key=st.sampled_from("abc"), model=st.sampled_from(MODELS), tally=TALLIES)


def used(key: str, model: str, *, prompt: int = 0, completion: int = 0, calls: int = 1) -> Used:
    tally = Tally(calls=calls, prompt_tokens=prompt, completion_tokens=completion)
    return Used(key=key, model=model, tally=tally)


# --- adding up ----------------------------------------------------------------------------------


@given(used=st.lists(USED, max_size=8), by=st.sampled_from(get_args(By)))
def test_the_total_is_the_sum_of_the_rows_in_whatever_order_they_came(
    used: Sequence[Used], by: By
) -> None:
    found = report(used, PRICES, by=by)

    for name in ("calls", "failed", "prompt_tokens", "completion_tokens", "estimated", "unpriced"):
        assert getattr(found.total, name) == sum(getattr(row, name) for row in found.rows)
    assert [row.key for row in found.rows] == list(dict.fromkeys(row.key for row in found.rows))
    turned = report(list(reversed(used)), PRICES, by=by)
    assert turned.rows == found.rows
    assert turned.total == found.total


def test_days_stand_in_order_and_all_else_by_tokens() -> None:
    of = [used("2026-11-02", "m", prompt=9), used("2026-11-01", "m", prompt=1)]

    assert [row.key for row in report(of, (), by="day").rows] == ["2026-11-01", "2026-11-02"]
    assert [row.key for row in report(of, (), by="model").rows] == ["2026-11-02", "2026-11-01"]


# --- money --------------------------------------------------------------------------------------


def test_the_first_price_that_fits_counts() -> None:
    prices = [price_of(PRICES, model) for model in MODELS]

    assert [price and (price.prompt, price.currency) for price in prices] == [
        (2.5, "USD"),
        (1.0, "USD"),
        (4.0, "EUR"),
        None,
    ]


def test_a_price_is_for_a_million_tokens() -> None:
    found = report([used("a", "gpt-4o", prompt=400_000, completion=50_000)], PRICES, by="owner")

    assert (found.total.cost, found.total.currency, found.total.unpriced) == (1.5, "USD", 0)


def test_without_a_price_there_is_no_cost() -> None:
    found = report([used("a", "qwen3", prompt=400_000)], PRICES, by="owner")

    assert (found.total.cost, found.total.currency, found.total.unpriced) == (None, None, 1)


def test_calls_without_a_price_are_told_beside_the_cost_of_the_others() -> None:
    both = [used("a", "qwen3", calls=3), used("a", "gpt-5", prompt=1_000_000)]

    [row] = report(both, PRICES, by="owner").rows

    assert (row.cost, row.currency, row.unpriced) == (1.0, "USD", 3)


def test_several_currencies_are_not_added() -> None:
    both = [used("a", "gpt-5", prompt=10**6), used("a", "mistral-small", prompt=10**6)]

    found = report(both, PRICES, by="model")

    assert (found.total.cost, found.total.currency) == (None, None)
    assert found.total.costs == {"USD": 1.0, "EUR": 4.0}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "is not JSON"),
        (b"[]", "expected object"),
        (b'{"m": {"prompt": 1}}', "completion"),
        (b'{"m": {"prompt": -1, "completion": 1, "currency": "EUR"}}', ">= 0"),
        (b'{"m": {"prompt": 1, "completion": 1, "currency": "EUR", "per": 1}}', "per"),
    ],
)
def test_prices_that_are_none_are_refused_with_a_reason(data: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_prices(data)


# --- one call -----------------------------------------------------------------------------------

OPTIONAL = st.none() | COUNTS


@given(prompt=OPTIONAL, completion=OPTIONAL, cached=OPTIONAL, known=COUNTS, said=COUNTS)
def test_a_count_of_the_server_comes_before_an_estimate(
    prompt: int | None, completion: int | None, cached: int | None, known: int, said: int
) -> None:
    counts: dict[str, Any] = {} if cached is None else {"cached_tokens": cached}
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion, **counts)

    tokens = tokens_of(replied(usage, estimate=estimate(usage, prompt=known, said=said)))

    assert tokens.prompt == (known if prompt is None else prompt)
    assert tokens.completion == (-(-2 * said // 7) if completion is None else completion)
    assert tokens.cached == cached
    assert tokens.estimated == (prompt is None or completion is None)


def test_a_call_of_an_old_log_that_nobody_counted_is_nothing_and_marked() -> None:
    failed = ModelCallFailed(
        call_id=CallId("c"), kind="stopped", error="", partial_text="half", will_retry=False
    )

    tokens = tokens_of(failed)

    assert (tokens.total, tokens.estimated) == (0, True)


@pytest.mark.parametrize(
    ("kind", "how", "read"),
    [
        ("connection", {"refused": True}, False),
        ("connection", {}, True),
        ("http", {"loading": True, "status": 503}, False),
        ("http", {"status": 401}, False),
        ("http", {"status": 429}, False),
        ("http", {"status": 500}, True),
        ("overflow", {}, False),
        ("timeout_first_chunk", {}, True),
        ("preempted", {}, True),
    ],
)
def test_what_a_server_has_refused_it_has_not_read(
    kind: FailureKind, how: dict[str, Any], read: bool
) -> None:
    assert was_read(ModelFailure(kind, "", **how)) == read


def replied(usage: Usage, **fields: Any) -> ModelReplied:
    return ModelReplied(
        call_id=CallId("c"),
        content="",
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=usage,
        duration_ms=1,
        first_chunk_ms=1,
        **fields,
    )
