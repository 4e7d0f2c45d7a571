"""Budgets: when one is used up, and what a turn does then."""

from datetime import UTC, datetime, timedelta

from hypothesis import given as for_all
from hypothesis import strategies as st

from navi.domain.session.commands import Failed, RecordOutcome
from navi.domain.session.session import GoOn, Wait, next_step
from navi.domain.session.turn import Finish, Limits
from navi.domain.spending.budgets import Budget, first_reached, out_of_budget, seconds_to_next_day
from navi.domain.vocabulary.events import (
    ApprovalRequested,
    BudgetReached,
    MessageDelivered,
    ModelCalled,
    ModelReplied,
    SessionCreated,
    ToolCall,
    TurnStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId
from tests.domain.specification import NODE, RUNNER, fold, given, next_of

REACHED = BudgetReached(scope="turn", limit=10, spent=12)
ENDED = Finish(
    ending=Failed(
        kind="budget",
        error="the turn's budget is used up: 12 of 10 tokens are spent (max_tokens_per_turn of the profile)",
    )
)
BEGUN = (
    SessionCreated(profile_id="assistant", owner=LOCAL_OWNER),
    UserMessageReceived(message_id=MessageId("m"), content="hi"),
    TurnStarted(node=NODE),
    MessageDelivered(message_seq=2),
)
CALL = CallId("c1")
CALLED = ModelCalled(
    call_id=CALL,
    purpose="turn",
    model="m",
    backend="b",
    iteration=1,
    request_sha256="",
    context_seq=0,
    system_sha256=None,
    tools_sha256=None,
    options={},
    renderer="r/1",
)
TOOL = ToolCall(id=CallId("t1"), name="tool", arguments={})
ASKED_FOR_TOOL = ModelReplied(
    call_id=CALL,
    content="",
    thinking="",
    tool_calls=(TOOL,),
    finish_reason="stop",
    usage=Usage(prompt_tokens=7, completion_tokens=5),
    duration_ms=1,
    first_chunk_ms=1,
)

COUNTS = st.integers(0, 2**53)


@for_all(limit=st.none() | st.integers(1, 2**53), spent=COUNTS)
def test_a_budget_is_reached_when_nothing_is_left_of_it(limit: int | None, spent: int) -> None:
    reached = first_reached(Budget(scope="session", limit=limit, spent=spent))

    if limit is None or spent < limit:
        assert reached is None
    else:
        assert reached == BudgetReached(scope="session", limit=limit, spent=spent)


@for_all(
    now=st.datetimes(
        min_value=datetime(2026, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(2030, 1, 1),  # noqa: DTZ001 - likewise
        timezones=st.just(UTC),
    )
)
def test_after_the_seconds_to_the_next_day_it_is_the_next_day_and_not_before(now: datetime) -> None:
    seconds = seconds_to_next_day(now)

    assert (now + timedelta(seconds=seconds)).date() == now.date() + timedelta(days=1)
    assert (now + timedelta(seconds=seconds - 1)).date() == now.date() or seconds == 1


def test_only_a_day_has_new_tokens_after_a_time() -> None:
    now = datetime(2026, 11, 22, 23, 59, tzinfo=UTC)

    def retry_after(reached: BudgetReached) -> int | None:
        return out_of_budget(reached, now=now).retry_after

    assert retry_after(BudgetReached(scope="day", limit=1, spent=1)) == 60
    assert retry_after(BudgetReached(scope="session", limit=1, spent=1)) is None
    assert retry_after(REACHED) is None


def test_a_turn_whose_budget_is_used_up_fails_next_whatever_it_has_open() -> None:
    assert next_of(fold((*BEGUN, REACHED)), Limits(max_iterations=20)) == ENDED
    with_tool = fold((*BEGUN, CALLED, ASKED_FOR_TOOL, REACHED))
    assert next_of(with_tool, Limits(max_iterations=20)) == ENDED


def test_it_is_said_once_however_many_subagents_find_out() -> None:
    again = RecordOutcome(runner=RUNNER, events=(REACHED,))

    after = given(*BEGUN).when(again).then(REACHED)

    assert after.turn is not None
    assert after.turn.budget == REACHED
    given(*BEGUN, REACHED).when(again).then()


def test_a_turn_that_waits_for_a_person_does_not_wait_beyond_its_budget() -> None:
    asked = ApprovalRequested(
        call_id=TOOL.id, name=TOOL.name, arguments={}, reason="", preview="", rule="r"
    )
    waiting = (*BEGUN, CALLED, ASKED_FOR_TOOL, asked)

    assert next_step(fold(waiting)) == Wait()
    assert next_step(fold((*waiting, REACHED))) == GoOn()


def test_a_turn_spends_what_its_calls_came_to() -> None:
    turn = fold((*BEGUN, CALLED, ASKED_FOR_TOOL)).turn

    assert turn is not None
    assert turn.spent == 12
