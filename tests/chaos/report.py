"""What was tried and what held, for people and for programs."""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from tests.chaos.run import Outcome

Sort = Callable[[Outcome], str]


class Row(Struct, frozen=True):
    """How many cut points of a sort were tried, and how many of them passed."""

    what: str
    tried: int
    passed: int


class Report(Struct, frozen=True, kw_only=True):
    """The outcomes of a run; ``seed`` brings about the same cuts again."""

    seed: int | None
    outcomes: tuple[Outcome, ...]

    @property
    def tried(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.reached)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.tried if not outcome.passed)

    @property
    def headline(self) -> str:
        """One line, as a test prints it."""
        tried = self.tried
        kills = sum(outcome.kills for outcome in tried)
        left_out = len(self.outcomes) - len(tried)
        beside = f", {left_out} not reached" if left_out else ""
        return (
            f"{len(tried)} cut points tried ({kills} kills), "
            f"{len(tried) - len(self.failed)} passed, {len(self.failed)} failed{beside}"
        )

    def rows(self, sort: Sort) -> tuple[Row, ...]:
        """The counts by some property of a cut, in its order."""
        tried = Counter(sort(outcome) for outcome in self.tried)
        passed = Counter(sort(outcome) for outcome in self.tried if outcome.passed)
        return tuple(Row(what, tried[what], passed[what]) for what in sorted(tried))

    @property
    def markdown(self) -> str:
        """The whole of it."""
        seed = "" if self.seed is None else f" Seed {self.seed}."
        return "\n".join(
            [
                f"{self.headline}.{seed}",
                "",
                *_table("killed", self.rows(_place)),
                "",
                *_table("phase", self.rows(_phase)),
                *(line for outcome in self.failed for line in _failure(outcome)),
                "",
            ]
        )

    def as_json(self) -> dict[str, object]:
        """The same, with every outcome."""
        return {
            "seed": self.seed,
            "tried": len(self.tried),
            "passed": len(self.tried) - len(self.failed),
            "failed": len(self.failed),
            "not_reached": [o.cut.name for o in self.outcomes if not o.reached],
            "by_place": self.rows(_place),
            "by_phase": self.rows(_phase),
            "outcomes": self.outcomes,
        }


def _place(outcome: Outcome) -> str:
    return outcome.cut.place


def _phase(outcome: Outcome) -> str:
    return outcome.phase


def _table(what: str, rows: Sequence[Row]) -> list[str]:
    lines = [f"| {what} | tried | passed |", "|---|---|---|"]
    return [*lines, *(f"| {row.what} | {row.tried} | {row.passed} |" for row in rows)]


def _failure(outcome: Outcome) -> list[str]:
    return ["", f"- **{outcome.cut.name}**", *(f"  - {problem}" for problem in outcome.problems)]
