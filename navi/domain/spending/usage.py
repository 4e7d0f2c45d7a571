"""What model calls came to: counts that add up, and what they cost."""

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from navi.domain.spending.prices import Prices, cost, price_of

By = Literal["day", "owner", "profile", "model", "purpose", "session"]

DIGITS = 9  # behind the point of an amount: sums of floats say more than is known


class Tally(Struct, frozen=True, kw_only=True):
    """The calls of some kind.

    Attributes:
        calls: those begun; one under way has no tokens yet.
        failed: those that ended without a reply: stopped and tried again ones too.
        cached_tokens: of the prompts, what servers had not to read anew; None where none has said.
        estimated: those of which a count is an estimate.
    """

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    estimated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        """Both together."""
        cached = (self.cached_tokens, other.cached_tokens)
        return Tally(
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=None if cached == (None, None) else sum(each or 0 for each in cached),
            estimated=self.estimated + other.estimated,
        )


class Used(Struct, frozen=True, kw_only=True):
    """The calls of a model that stand under a key: of a day, an owner, ..."""

    key: str
    model: str
    tally: Tally


class Totals(Struct, frozen=True, kw_only=True):
    """What calls came to, and cost.

    Attributes:
        cost: of the calls whose models have a price; None where none has, and where the prices are in
            several currencies: these cannot be added.
        costs: by currency, where there are several.
        unpriced: calls whose models have no price: their tokens are not in ``cost``.
    """

    calls: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    estimated: int
    cost: float | None
    currency: str | None
    unpriced: int
    costs: dict[str, float] | UnsetType = UNSET


class KeyedTotals(Totals, frozen=True, kw_only=True):
    """The same of one day, owner, profile, model, purpose or session."""

    key: str


class UsageReport(Struct, frozen=True, kw_only=True):
    """Usage by key: days in order, else what took the most tokens first."""

    rows: tuple[KeyedTotals, ...]
    total: Totals


def report(used: Iterable[Used], prices: Prices, *, by: By) -> UsageReport:
    """Add up what stands under the same key."""
    tallies: dict[tuple[str, str], Tally] = {}
    for one in used:
        place = (one.key, one.model)
        tallies[place] = tallies.get(place, Tally()) + one.tally
    of_keys: dict[str, dict[str, Tally]] = {}
    of_models: dict[str, Tally] = {}
    for (key, model), tally in tallies.items():
        of_keys.setdefault(key, {})[model] = tally
        of_models[model] = of_models.get(model, Tally()) + tally
    rows = [
        KeyedTotals(key=key, **asdict(_totals(models, prices))) for key, models in of_keys.items()
    ]
    rows.sort(key=lambda row: row.key)
    if by != "day":
        rows.sort(key=lambda row: row.prompt_tokens + row.completion_tokens, reverse=True)
    return UsageReport(rows=tuple(rows), total=_totals(of_models, prices))


def _totals(models: dict[str, Tally], prices: Prices) -> Totals:
    whole = sum(models.values(), Tally())
    costs: dict[str, float] = {}
    unpriced = 0
    for model, tally in sorted(models.items()):
        price = price_of(prices, model)
        if price is None:
            unpriced += tally.calls
            continue
        amount = cost(price, prompt=tally.prompt_tokens, completion=tally.completion_tokens)
        costs[price.currency] = costs.get(price.currency, 0.0) + amount
    costs = {currency: round(amount, DIGITS) for currency, amount in costs.items()}
    [(currency, amount)] = costs.items() if len(costs) == 1 else [(None, None)]
    return Totals(
        calls=whole.calls,
        failed=whole.failed,
        prompt_tokens=whole.prompt_tokens,
        completion_tokens=whole.completion_tokens,
        cached_tokens=whole.cached_tokens,
        estimated=whole.estimated,
        cost=amount,
        currency=currency,
        unpriced=unpriced,
        costs=costs if len(costs) > 1 else UNSET,
    )
