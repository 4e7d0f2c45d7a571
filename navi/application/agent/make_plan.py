"""Run one phase of planning: ask the model, log the result with the reply."""

from msgspec.structs import replace

from navi.application.agent.model_calls.ask_model import AskModelOnce
from navi.application.agent.model_calls.model_call import CallEvent
from navi.application.agent.model_calls.question import Question
from navi.application.agent.model_calls.recorders import InTurn
from navi.domain.agent.planning import (
    TEMPERATURE,
    Executors,
    analysis_messages,
    parse_plan,
    plan_messages,
    plan_ready,
    review_messages,
    todo_of,
    verdict_of_analysis,
)
from navi.domain.model_calls.answer_bounds import ANALYSIS, PLAN, REVIEW
from navi.domain.session.turn import MakePlan
from navi.domain.vocabulary.events import ModelReplied, PlanningPhaseCompleted, TodoUpdated


async def make_plan(
    ask_model: AskModelOnce,
    recorder: InTurn,
    step: MakePlan,
    question: Question,
    executors: Executors,
) -> None:
    """Ask for a phase, not thinking; a tool that is called is passed over.

    Args:
        question: what every call of the actor begins with.
        executors: the tools a plan may use, and the profiles a subagent may have.

    Raises:
        NoModel: there is nothing to ask.
        Fenced: the turn is another's.
    """
    turn = recorder.record.session.turn
    assert turn is not None  # noqa: S101 - planning happens in a turn
    plan = turn.actor(recorder.subagent_id).plan
    match step.phase:
        case 1:
            tail, conclude, most = analysis_messages(executors), _analysed, ANALYSIS
        case 2:
            tail = review_messages(executors, plan.analysis or "")
            conclude, most = _reviewed, REVIEW
        case 3:
            tail = plan_messages(executors, plan.analysis or "", plan.review)
            conclude = _planned if recorder.subagent_id is None else _planned_by_subagent
            most = PLAN
    asked = replace(
        question,
        purpose="review" if step.phase == 2 else "planning",
        attempts=step.attempts,
        temperature=TEMPERATURE,
        think=False,
        tail=tail,
        max_tokens=most,
    )
    await ask_model(recorder, asked, conclude=conclude)


def _analysed(reply: ModelReplied) -> tuple[CallEvent, ...]:
    verdict = verdict_of_analysis(reply.content)
    return (_completed(1, reply, verdict),)


def _reviewed(reply: ModelReplied) -> tuple[CallEvent, ...]:
    return (_completed(2, reply, "plan"),)


def _planned(reply: ModelReplied) -> tuple[CallEvent, ...]:
    plan = parse_plan(reply.content)
    todo = (TodoUpdated(items=todo_of(plan)),) if plan is not None else ()
    return (*_planned_by_subagent(reply), *todo)


def _planned_by_subagent(reply: ModelReplied) -> tuple[CallEvent, ...]:
    """A subagent's plan: as the agent's, but the session's todo list stays."""
    plan = parse_plan(reply.content)
    if plan is None:
        return (_completed(3, reply, "malformed"),)
    return (_completed(3, reply, "plan"), plan_ready(plan))


def _completed(phase: int, reply: ModelReplied, verdict: str) -> PlanningPhaseCompleted:
    assert phase in (1, 2, 3)  # noqa: S101 - the callers' constants
    return PlanningPhaseCompleted(
        phase=phase, call_id=reply.call_id, output=reply.content, verdict=verdict
    )
