"""How long a model server may read a prompt before its first chunk, by what it was measured to read."""

from msgspec import UNSET, Struct

from navi.domain.model_calls.model_choice import Candidate
from navi.domain.vocabulary.events import Usage

USUAL_PROMPT = 4000  # tokens that are read in the time that is set, by the slowest machines in use
SLOWEST_RATE = 2.0  # tokens a second: a server that loaded its model first only seems slower
TELLING_BOUND = 40.0  # tokens a second: an upper bound below it tells of a slow machine
FACTOR = 3.0  # how much slower than before a server may be: other calls, a longer context
LONGEST = 3600.0  # seconds
SHORTEST_SAMPLE = 200  # tokens: with fewer the way there and back counts, not the reading
RISE, FALL = 0.2, 0.7  # share of a new measurement: slow ones count at once, quick ones in time
MAX_KNOWN = 256  # models on servers whose rate is kept


class Rates(Struct, frozen=True):
    """Tokens a second that models read of prompts, as measured; the latest measured ones last."""

    known: dict[Candidate, float] = {}


def first_chunk_timeout(rates: Rates, candidate: Candidate, *, tokens: int, least: float) -> float:
    """Seconds that a prompt of so many tokens may take, never less than ``least``."""
    rate = rates.known.get(candidate)
    seconds = least * tokens / USUAL_PROMPT if rate is None else FACTOR * tokens / rate
    return max(least, min(LONGEST, seconds))


def measured(rates: Rates, candidate: Candidate, usage: Usage, *, seconds: float) -> Rates:
    """The rates after a reply whose first chunk came after ``seconds``.

    Of a server that does not say what it had in its cache a measurement is only an upper bound.
    """
    if usage.prompt_tokens is None or seconds <= 0:
        return rates
    cached = 0 if usage.cached_tokens is UNSET else usage.cached_tokens
    tokens = usage.prompt_tokens - cached
    if tokens < SHORTEST_SAMPLE:
        return rates
    before, sample = rates.known.get(candidate), max(SLOWEST_RATE, tokens / seconds)
    if before is None:
        rate = sample if usage.cached_tokens is not UNSET or sample < TELLING_BOUND else None
    elif sample < before:
        rate = before + FALL * (sample - before)
    elif usage.cached_tokens is UNSET:
        rate = before
    else:
        rate = before + RISE * (sample - before)
    if rate is None:
        return rates
    others = {known: other for known, other in rates.known.items() if known != candidate}
    while len(others) >= MAX_KNOWN:
        del others[next(iter(others))]
    return Rates({**others, candidate: rate})
