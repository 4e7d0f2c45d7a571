"""Guidance for the model while it works: budget, goal anchor, stall warning, re-plan.

Each mechanic is one function of small values; ``Progress`` is what they need to know of the past. An
iteration is a model call with tools that was answered, counted as ``Actor.iterations`` counts.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.agent.profile import Profile
from navi.domain.vocabulary.events import (
    AgentEvent,
    GuidanceGiven,
    GuidanceKind,
    TodoItem,
    TodoUpdated,
)

LAST_WORDS = 3  # iterations at the end of which each is announced
MAX_GOAL = 2_000  # characters of the user's message in a reminder
MAX_OPEN_ITEMS = 20  # of the todo list in a reminder
MAX_ITEM = 200  # characters

Status = Literal["pending", "in_progress", "done", "failed", "skipped"]
_FAR: dict[Status, int] = {"pending": 0, "in_progress": 1, "done": 2, "failed": 2, "skipped": 2}


class Progress(Struct, frozen=True, kw_only=True):
    """How an actor gets on within a turn.

    Attributes:
        progressed_at: iterations that were over when the todo list last got on.
        given: iterations that were over when each kind of guidance was last given.
        replan_due: a step has become failed, and the model was not asked for another way yet.
        statuses: of the todo items, by id, as the list last was, in an earlier turn too.
    """

    progressed_at: int = 0
    given: dict[GuidanceKind, int] = {}
    replan_due: bool = False
    statuses: dict[str, Status] = {}


def evolve_progress(
    progress: Progress, event: AgentEvent, *, iterations: int, answers: bool = True
) -> Progress:
    """The progress after an event; total.

    Args:
        iterations: how many of the actor's are over when the event happens.
        answers: whether it is for this actor to find another way where a step failed: the todo list
            is shared with subagents, and one of their failures is not another's.
    """
    match event:
        case TodoUpdated(items=items):
            before = progress.statuses
            failed_now = any(
                item.status == "failed" and before.get(item.id) != "failed" for item in items
            )
            still_failed = any(item.status == "failed" for item in items)
            return replace(
                progress,
                progressed_at=iterations if _got_on(before, items) else progress.progressed_at,
                replan_due=still_failed and ((failed_now and answers) or progress.replan_due),
                statuses=statuses_of(items),
            )
        case GuidanceGiven(kind=kind):
            return replace(
                progress,
                given={**progress.given, kind: iterations},
                replan_due=progress.replan_due and kind != "replan",
            )
        case _:
            return progress


def due_guidance(
    profile: Profile,
    progress: Progress,
    *,
    iterations: int,
    max_iterations: int,
    goal: str,
    todo: Sequence[TodoItem],
    cut_off: str | None = None,
) -> tuple[GuidanceGiven, ...]:
    """What is to be said before the next model call, in the order of ``GuidanceKind``.

    Nothing is due a second time at the same iteration, so that a turn taken up again after a crash
    does not repeat it.

    Args:
        iterations: how many of the turn's are over; 0 before its first model call.
        goal: what the user asked for in this turn.
        cut_off: what to say where the last answer was cut off for length and is to go on.
    """
    due: dict[GuidanceKind, str | None] = {"continue": cut_off}
    if profile.iteration_budget_enabled:
        due["iteration_budget"] = iteration_budget(iterations, max_iterations)
    if profile.goal_anchoring_enabled:
        due["goal_anchor"] = goal_anchor(
            iterations, interval=profile.goal_anchoring_interval, goal=goal, todo=todo
        )
    if profile.anti_stall_enabled:
        since = max(progress.progressed_at, progress.given.get("anti_stall", 0))
        due["anti_stall"] = anti_stall(
            iterations - since,
            threshold=profile.anti_stall_threshold,
            stalled=iterations - progress.progressed_at,
            todo=todo,
        )
    if profile.adaptive_replan_enabled and progress.replan_due:
        due["replan"] = replan(todo)
    return tuple(
        GuidanceGiven(kind=kind, content=content)
        for kind, content in due.items()
        if content is not None and progress.given.get(kind) != iterations
    )


# --- an answer that was cut off for length --------------------------------------------------------

GO_ON = (
    "Your answer was cut off for length. Go on exactly where it stops, without repeating anything, and "
    "come to an end soon."
)
MAKE_SMALLER_CALLS = (
    "Your last tool call was cut off for length before its arguments were complete, so it was not run. "
    "Make it again with less in it: write a long text in several calls."
)
ANSWER_AT_ONCE = (
    "Your answer was cut off for length before you said anything. Answer at once and briefly; write a "
    "long text in several steps."
)


def cut_off_words(cut_off: Literal["", "answer", "call", "circle"], *, said: bool) -> str | None:
    """What to say to a model whose answer was cut off for length; None where it was not.

    Args:
        said: whether it had said anything yet, and not only thought.
    """
    match cut_off:
        case "" | "circle":
            return None
        case "call":
            return MAKE_SMALLER_CALLS
        case "answer":
            return GO_ON if said else ANSWER_AT_ONCE


# --- the mechanics ------------------------------------------------------------------------------


def iteration_budget(iterations: int, max_iterations: int) -> str | None:
    """How much is left: said at half time and before each of the last ``LAST_WORDS`` iterations.

    Never before the first one: nothing was spent yet. After the last one it announces the call
    without tools.
    """
    remain = max_iterations - iterations
    if iterations == 0:
        return None
    if remain <= 0:
        return (
            f"All {max_iterations} iterations are used: no more tools are offered. Give your final "
            "answer now: what is done, what you found, and what is left open."
        )
    if remain <= LAST_WORDS:
        remains = "1 iteration remains" if remain == 1 else f"{remain} iterations remain"
        return (
            f"{remains} of {max_iterations}. Wrap up: finish what you have begun, begin nothing "
            "new, and keep the last one for your answer, with what is left open."
        )
    if iterations == (max_iterations + 1) // 2:
        return (
            f"Half of the iterations are used: {remain} of {max_iterations} remain. See what is "
            "still needed for the user's goal, and leave out what is not."
        )
    return None


def goal_anchor(
    iterations: int, *, interval: int, goal: str, todo: Sequence[TodoItem]
) -> str | None:
    """What the user wants and what is open, after every ``interval`` iterations."""
    if iterations == 0 or iterations % interval != 0:
        return None
    lines = ["A reminder of the goal. The user asked:", "", _cut(goal, MAX_GOAL), ""]
    if open_items := [item for item in todo if _FAR[item.status] < _FAR["done"]]:
        lines += ["Still open:", *_listed(open_items), ""]
    return "\n".join([*lines, "Is your next step the shortest way there? If not, change course."])


def anti_stall(
    since_last: int, *, threshold: int, stalled: int, todo: Sequence[TodoItem]
) -> str | None:
    """A warning after ``threshold`` iterations without progress, and after each further so many.

    Args:
        since_last: iterations since the todo list got on or this was last said.
        stalled: iterations since the todo list got on.
    """
    if since_last < threshold:
        return None
    if not todo:
        advice = "There is no todo list: write down the steps that are left with the todo tool."
    elif all(_FAR[item.status] == _FAR["done"] for item in todo):
        advice = "Every item of the todo list is settled: give your answer, or add what is missing."
    else:
        advice = (
            "Mark what is finished. If a step does not work, try it in another way, mark it failed "
            "or skipped and say why, or tell the user what you need."
        )
    return (
        f"{stalled} iterations have passed without progress on the todo list. Do not repeat what "
        f"did not help. {advice}"
    )


def replan(todo: Sequence[TodoItem]) -> str | None:
    """A request for another way, naming the steps that failed; None where none is failed any more."""
    failed = [item for item in todo if item.status == "failed"]
    if not failed:
        return None
    lines = [
        "These steps failed:",
        *_listed(failed),
        "",
        "Plan again before you go on: say in one sentence why it failed, decide whether the goal can "
        "be reached in another way, and bring the todo list up to date: replace or skip the steps "
        "that depended on it. If there is no other way, say so to the user.",
    ]
    return "\n".join(lines)


def check_todo(
    before: Sequence[TodoItem], after: Sequence[TodoItem], *, validation_required: bool
) -> str | None:
    """Why a change of the todo list is refused, in words the model can act on; None if it is fine.

    Where validation is required, a step cannot become ``done`` without one; what was done before
    stays done.
    """
    if not validation_required:
        return None
    done_before = {(item.id, item.text) for item in before if item.status == "done"}
    unchecked = [
        item
        for item in after
        if item.status == "done"
        and (item.id, item.text) not in done_before
        and not (item.validation or "").strip()
    ]
    if not unchecked:
        return None
    names = "; ".join(f"{item.id} ({_cut(item.text, MAX_ITEM)})" for item in unchecked)
    return (
        f"not done without a validation: item {names}. Check the result first, then set status done "
        "together with validation: what you checked and what came of it"
    )


def statuses_of(items: Sequence[TodoItem]) -> dict[str, Status]:
    """How far each item is, by id."""
    return {item.id: item.status for item in items}


def _got_on(before: dict[str, Status], items: Sequence[TodoItem]) -> bool:
    """Whether some item is further on than it was, or the first list was written."""
    if not before:
        return bool(items)
    return any(_FAR[item.status] > _FAR[before.get(item.id, "pending")] for item in items)


def _listed(items: Sequence[TodoItem]) -> list[str]:
    shown = [f"- {item.id}. {_cut(item.text, MAX_ITEM)}" for item in items[:MAX_OPEN_ITEMS]]
    more = len(items) - len(shown)
    return [*shown, f"- and {more} more"] if more else shown


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
