"""What a benchmark gives, and how the things it compares take turns."""

import statistics
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Pace(Struct, frozen=True, kw_only=True):
    """How long to measure.

    Attributes:
        rounds: how often everything of a row is measured, in turns.
        seconds: that one measurement of a rate takes.
        turns: that one measurement of a turn takes.
        long: turns of a session that is called long.
    """

    rounds: int
    seconds: float
    turns: int
    long: int = 300


FULL = Pace(rounds=5, seconds=2.0, turns=40)
QUICK = Pace(rounds=2, seconds=0.3, turns=8)
SHORTEST = Pace(rounds=1, seconds=0.05, turns=2, long=12)  # whether it runs, not what it costs


class Target(Struct, frozen=True):
    """Where a figure should be."""

    bound: Literal["at least", "at most"]
    value: float

    def met(self, value: float) -> bool:
        """Whether a figure is there."""
        return value >= self.value if self.bound == "at least" else value <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.bound == 'at least' else '<='} {self.value:g}"


class Figure(Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        row: number of the target.
        values: one a round.
        unit: ``x`` for a ratio to what was measured beside it, else a unit of time.
        target: None where the line is there to be read beside another one.
        beside: absolute figures, for reference only, by name and unit.
    """

    row: int
    what: str
    values: tuple[float, ...]
    target: Target | None
    unit: str = "x"
    beside: dict[str, float] = {}

    @property
    def middle(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if self.target is None:
            return ""
        return "met" if self.target.met(self.middle) else "missed"


def at_least(value: float) -> Target:
    return Target("at least", value)


def at_most(value: float) -> Target:
    return Target("at most", value)


async def in_turns(
    rounds: int, measures: dict[str, Callable[[], Awaitable[T]]]
) -> dict[str, tuple[T, ...]]:
    """Each measure once a round, forwards and backwards, so that none has the better place."""
    found: dict[str, list[T]] = {name: [] for name in measures}
    for number in range(rounds):
        names = list(measures)
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(await measures[name]())
    return {name: tuple(values) for name, values in found.items()}


def ratios(values: tuple[float, ...], limits: tuple[float, ...]) -> tuple[float, ...]:
    """The ratio of each round."""
    return tuple(value / limit for value, limit in zip(values, limits, strict=True))


def quantile(sorted_values: list[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of them are."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]
