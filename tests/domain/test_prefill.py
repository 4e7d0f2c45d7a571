"""How long a prompt may take before the first chunk."""

import pytest
from msgspec import UNSET, UnsetType

from navi.domain.model_calls.model_choice import Candidate
from navi.domain.model_calls.prefill import (
    FACTOR,
    LONGEST,
    MAX_KNOWN,
    SLOWEST_RATE,
    Rates,
    first_chunk_timeout,
    measured,
)
from navi.domain.vocabulary.events import Usage

MODEL = Candidate("llama", "qwen")


def after(*samples: tuple[int, float], cached: int | UnsetType = 0) -> Rates:
    """The rates after prompts of so many tokens took so many seconds."""
    rates = Rates()
    for tokens, seconds in samples:
        usage = Usage(prompt_tokens=tokens, cached_tokens=cached)
        rates = measured(rates, MODEL, usage, seconds=seconds)
    return rates


def timeout(rates: Rates, tokens: int, least: float = 120.0) -> float:
    return first_chunk_timeout(rates, MODEL, tokens=tokens, least=least)


def test_a_short_prompt_has_the_time_that_is_set() -> None:
    assert timeout(Rates(), 2400) == 120.0
    assert timeout(after((1000, 1.0)), 12_000) == 120.0


def test_a_long_prompt_has_more_before_anything_was_measured() -> None:
    """12,000 tokens took 314 s on two cores."""
    assert timeout(Rates(), 12_000) == 360.0


def test_a_slow_model_has_as_long_as_it_needs_and_some_more() -> None:
    assert timeout(after((1000, 100.0)), 8000) == FACTOR * 800.0


def test_nobody_waits_for_longer_than_an_hour_unless_it_is_set() -> None:
    assert timeout(after((1000, 1000.0)), 100_000) == LONGEST
    assert timeout(after((1000, 1000.0)), 100_000, least=2 * LONGEST) == 2 * LONGEST


def test_slow_measurements_count_more_than_quick_ones() -> None:
    quick_then_slow = after((1000, 1.0), (1000, 10.0)).known[MODEL]
    slow_then_quick = after((1000, 10.0), (1000, 1.0)).known[MODEL]

    assert (round(quick_then_slow), round(slow_then_quick)) == (370, 280)


def test_what_was_in_the_cache_was_not_read() -> None:
    assert after((5000, 10.0), cached=4000).known[MODEL] == 100.0


@pytest.mark.parametrize(
    ("sample", "rate"), [((5000, 10.0), None), ((300, 10.0), 30.0)], ids=["quick", "slow"]
)
def test_of_an_unknown_cache_only_slowness_is_learnt(
    sample: tuple[int, float], rate: float | None
) -> None:
    assert after(sample, cached=UNSET).known.get(MODEL) == rate


def test_a_few_tokens_tell_nothing() -> None:
    assert after((150, 10.0)) == Rates()


def test_a_server_that_had_to_load_first_is_not_taken_for_endlessly_slow() -> None:
    assert after((300, 600.0)).known[MODEL] == SLOWEST_RATE


def test_the_models_that_are_known_are_bounded() -> None:
    rates = Rates()
    for number in range(MAX_KNOWN + 10):
        model = Candidate("server", str(number))
        usage = Usage(prompt_tokens=1000, cached_tokens=0)
        rates = measured(rates, model, usage, seconds=1.0)

    assert len(rates.known) == MAX_KNOWN
    assert Candidate("server", str(MAX_KNOWN + 9)) in rates.known
