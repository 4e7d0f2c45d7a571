"""Guidance: when navi says a word to the model, and which."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.domain.agent.guidance import (
    MAX_GOAL,
    MAX_OPEN_ITEMS,
    Progress,
    Status,
    anti_stall,
    check_todo,
    due_guidance,
    evolve_progress,
    goal_anchor,
    iteration_budget,
    replan,
)
from navi.domain.agent.profile import Profile
from navi.domain.vocabulary.events import GuidanceGiven, TodoItem, TodoUpdated, TurnStarted
from tests.domain.specification import NODE

EVERYTHING = Profile(adaptive_replan_enabled=True)
NOTHING = Profile(
    iteration_budget_enabled=False, goal_anchoring_enabled=False, anti_stall_enabled=False
)


def item(number: int, status: Status = "pending", validation: str | None = None) -> TodoItem:
    return TodoItem(id=str(number), text=f"step {number}", status=status, validation=validation)


def updated(*items: TodoItem) -> TodoUpdated:
    return TodoUpdated(items=items)


def kinds(given: tuple[GuidanceGiven, ...]) -> list[str]:
    return [guidance.kind for guidance in given]


# --- iteration budget ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "told_after"),
    [
        (20, [10, 17, 18, 19, 20]),
        (9, [5, 6, 7, 8, 9]),
        (4, [1, 2, 3, 4]),
        (1, [1]),
    ],
)
def test_the_budget_is_told_at_half_time_and_at_the_end(limit: int, told_after: list[int]) -> None:
    told = [used for used in range(limit + 1) if iteration_budget(used, limit) is not None]

    assert told == told_after


def test_the_budget_says_how_many_iterations_remain() -> None:
    texts = [iteration_budget(used, 20) or "" for used in (10, 18, 19, 20)]

    assert [text.partition(".")[0] for text in texts] == [
        "Half of the iterations are used: 10 of 20 remain",
        "2 iterations remain of 20",
        "1 iteration remains of 20",
        "All 20 iterations are used: no more tools are offered",
    ]


# --- goal anchor --------------------------------------------------------------------------------


def test_the_goal_is_told_after_every_interval() -> None:
    told = [n for n in range(13) if goal_anchor(n, interval=5, goal="Sing.", todo=())]

    assert told == [5, 10]


def test_the_goal_comes_with_what_is_open() -> None:
    todo = [item(1, "done"), item(2, "in_progress"), item(3), item(4, "failed")]

    assert goal_anchor(5, interval=5, goal="Sing.", todo=todo) == (
        "A reminder of the goal. The user asked:\n\nSing.\n\nStill open:\n- 2. step 2\n- 3. step 3\n\n"
        "Is your next step the shortest way there? If not, change course."
    )


def test_a_reminder_of_the_goal_is_short() -> None:
    todo = [TodoItem(id=str(number), text="x" * 1_000) for number in range(100)]
    text = goal_anchor(5, interval=5, goal="y" * 100_000, todo=todo)

    assert text is not None
    assert f"- and {100 - MAX_OPEN_ITEMS} more" in text
    assert f"\n{'y' * (MAX_GOAL - 1)}…\n" in text
    assert len(text) < 7_000


# --- anti stall ---------------------------------------------------------------------------------


def test_a_stall_is_told_after_the_threshold_and_after_each_further_one() -> None:
    progress, told = Progress(progressed_at=2), list[int]()
    for iterations in range(20):
        for guidance in due_guidance(
            Profile(iteration_budget_enabled=False, goal_anchoring_enabled=False),
            progress,
            iterations=iterations,
            max_iterations=100,
            goal="Sing.",
            todo=(),
        ):
            progress = evolve_progress(progress, guidance, iterations=iterations)
            told.append(iterations)

    assert told == [10, 18]


@pytest.mark.parametrize(
    ("todo", "advice"),
    [
        ((), "There is no todo list"),
        ((item(1, "done"), item(2, "skipped")), "Every item of the todo list is settled"),
        ((item(1, "done"), item(2)), "Mark what is finished"),
    ],
)
def test_the_advice_fits_the_list(todo: tuple[TodoItem, ...], advice: str) -> None:
    text = anti_stall(8, threshold=8, stalled=16, todo=todo)

    assert text is not None
    assert text.startswith("16 iterations have passed without progress on the todo list.")
    assert advice in text


# --- replan -------------------------------------------------------------------------------------


def test_a_replan_names_the_steps_that_failed() -> None:
    text = replan([item(1, "done"), item(2, "failed"), item(3)])

    assert text is not None
    assert text.startswith("These steps failed:\n- 2. step 2\n\nPlan again")
    assert replan([item(1)]) is None


# --- progress -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "got_on"),
    [
        ((), (item(1),), True),
        ((), (), False),
        ((item(1),), (item(1, "in_progress"),), True),
        ((item(1, "in_progress"),), (item(1, "done"),), True),
        ((item(1, "in_progress"),), (item(1, "skipped"),), True),
        ((item(1),), (item(1), item(2)), False),
        ((item(1, "in_progress"),), (item(1),), False),
        ((item(1, "done"),), (item(1, "done"),), False),
    ],
)
def test_progress_is_an_item_that_is_further_on(
    before: tuple[TodoItem, ...], after: tuple[TodoItem, ...], got_on: bool
) -> None:
    progress = evolve_progress(Progress(), updated(*before), iterations=1)

    after_it = evolve_progress(progress, updated(*after), iterations=7)

    assert (after_it.progressed_at == 7) is got_on


def test_a_step_that_became_failed_waits_for_one_replan() -> None:
    progress = evolve_progress(Progress(), updated(item(1, "failed"), item(2)), iterations=3)
    assert progress.replan_due

    told = evolve_progress(progress, GuidanceGiven(kind="replan", content=""), iterations=3)
    assert not told.replan_due

    again = evolve_progress(told, updated(item(1, "failed"), item(2, "done")), iterations=4)
    assert not again.replan_due

    second = evolve_progress(again, updated(item(1, "failed"), item(2, "failed")), iterations=5)
    assert second.replan_due


def test_a_replan_that_the_model_made_itself_is_not_asked_for() -> None:
    failed = evolve_progress(Progress(), updated(item(1, "failed")), iterations=3)
    other = evolve_progress(failed, GuidanceGiven(kind="anti_stall", content=""), iterations=3)
    kept = evolve_progress(other, updated(item(1, "failed"), item(2)), iterations=3)

    replanned = evolve_progress(kept, updated(item(2)), iterations=3)

    assert [p.replan_due for p in (failed, other, kept, replanned)] == [True, True, True, False]


def test_other_events_change_nothing() -> None:
    progress = Progress(progressed_at=3)

    assert evolve_progress(progress, TurnStarted(node=NODE), iterations=5) is progress


# --- all of them --------------------------------------------------------------------------------


def test_all_that_is_due_comes_in_one_order() -> None:
    due = due_guidance(
        EVERYTHING,
        Progress(replan_due=True, statuses={"1": "failed"}),
        iterations=10,
        max_iterations=20,
        goal="Sing.",
        todo=(item(1, "failed"),),
    )

    assert kinds(due) == ["iteration_budget", "goal_anchor", "anti_stall", "replan"]


def test_each_mechanic_can_be_switched_off() -> None:
    due = due_guidance(
        NOTHING,
        Progress(replan_due=True),
        iterations=10,
        max_iterations=20,
        goal="Sing.",
        todo=(item(1, "failed"),),
    )

    assert due == ()


@given(
    iterations=st.integers(0, 40),
    progressed_at=st.integers(0, 40),
    replan_due=st.booleans(),
    interval=st.integers(1, 10),
)
def test_nothing_is_said_twice_at_one_iteration(
    iterations: int, progressed_at: int, replan_due: bool, interval: int
) -> None:
    profile = Profile(
        adaptive_replan_enabled=True, goal_anchoring_interval=interval, anti_stall_threshold=2
    )
    asked: dict[str, Any] = {
        "iterations": iterations,
        "max_iterations": 20,
        "goal": "Sing.",
        "todo": (item(1, "failed"),),
    }
    progress = Progress(progressed_at=min(progressed_at, iterations), replan_due=replan_due)

    for guidance in due_guidance(profile, progress, **asked):
        progress = evolve_progress(progress, guidance, iterations=iterations)

    assert due_guidance(profile, progress, **asked) == ()


# --- step validation ----------------------------------------------------------------------------


def test_a_step_is_not_done_without_a_validation() -> None:
    before = (item(1), item(2))

    assert check_todo(
        before, (item(1, "done"), item(2, "done", " ")), validation_required=True
    ) == (
        "not done without a validation: item 1 (step 1); 2 (step 2). Check the result first, then "
        "set status done together with validation: what you checked and what came of it"
    )


@pytest.mark.parametrize(
    "after",
    [
        (item(1, "done", "the test passes"),),
        (item(1, "failed"),),
        (item(1, "in_progress"), item(9, "done")),
        (),
    ],
)
def test_other_changes_need_none(after: tuple[TodoItem, ...]) -> None:
    assert check_todo((item(1), item(9, "done")), after, validation_required=True) is None


def test_another_step_under_the_number_of_a_done_one_needs_its_own() -> None:
    other = TodoItem(id="9", text="something else", status="done")

    assert check_todo((item(9, "done"),), (other,), validation_required=True) is not None


def test_without_the_rule_every_change_is_fine() -> None:
    assert check_todo((), (item(1, "done"),), validation_required=False) is None
