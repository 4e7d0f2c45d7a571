"""Budgets in tokens: of a turn, of a session, of a user's day. Looked at before each model call.

A call that is under way has no count yet, so a budget may be overshot by what is in flight when it is
reached: by one call, and by one more for each subagent at work beside it.
"""

from datetime import UTC, datetime, timedelta
from typing import assert_never

from msgspec import Struct

from navi.domain.vocabulary.errors import BudgetScope, OutOfBudget
from navi.domain.vocabulary.events import BudgetReached

BUDGET = "budget"  # kind of turn_failed


class Budget(Struct, frozen=True, kw_only=True):
    """How many tokens there are, None for no end, and how many are spent."""

    scope: BudgetScope
    limit: int | None
    spent: int


def first_reached(*budgets: Budget) -> BudgetReached | None:
    """The first of some budgets of which nothing is left."""
    for one in budgets:
        if one.limit is not None and one.spent >= one.limit:
            return BudgetReached(scope=one.scope, limit=one.limit, spent=one.spent)
    return None


def out_of_budget(reached: BudgetReached, *, now: datetime) -> OutOfBudget:
    """The refusal of whatever would spend more."""
    return OutOfBudget(
        budget_words(reached),
        scope=reached.scope,
        limit=reached.limit,
        spent=reached.spent,
        retry_after=seconds_to_next_day(now) if reached.scope == "day" else None,
    )


def budget_words(reached: BudgetReached) -> str:
    """What is spent, for people."""
    spent = f"{reached.spent:,} of {reached.limit:,} tokens are spent"
    match reached.scope:
        case "turn":
            return f"the turn's budget is used up: {spent} (max_tokens_per_turn of the profile)"
        case "session":
            return (
                f"the session's budget is used up: {spent} (max_tokens_per_session of the profile)"
            )
        case "day":
            return f"the day's budget is used up: {spent}; there are new ones from 00:00 UTC on"
        case _:
            assert_never(reached.scope)


def seconds_to_next_day(now: datetime) -> int:
    """Whole seconds after which the next day has begun, UTC; at least one."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    left = midnight + timedelta(days=1) - now
    return max(1, -(-left // timedelta(seconds=1)))
