"""The agent loop, for the agent and each subagent: take the next step until the actor is done."""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import assert_never

import structlog
from msgspec.structs import replace

from navi.application.agent.actor_profile import profile_of_actor
from navi.application.agent.agent_actions import Actions
from navi.application.agent.compose_request import compose_request, offered_tools
from navi.application.agent.make_plan import make_plan
from navi.application.agent.model_calls.call_bounds import NoRoom
from navi.application.agent.model_calls.model_queue import KeptSlot
from navi.application.agent.model_calls.question import AskedAnew, Question
from navi.application.agent.model_calls.recorders import InTurn
from navi.application.agent.running_turn import Agent, RunningTurn
from navi.application.agent.show_picture import due_pictures
from navi.application.session.retry import with_retry
from navi.domain.agent.guidance import cut_off_words, due_guidance
from navi.domain.agent.planning import Executors
from navi.domain.agent.profile import Profile, ServedProfile
from navi.domain.context.compression import quoted_request
from navi.domain.reading.fold import Fold
from navi.domain.session.commands import Completed, DeliverMessages
from navi.domain.session.session import due_messages
from navi.domain.session.turn import (
    FAILED,
    AskModel,
    Compress,
    Deliver,
    Finish,
    LeavePlan,
    Limits,
    MakePlan,
    RunTools,
    ToolRun,
    WaitForApproval,
    goes_on,
    next_turn_step,
    waits,
)
from navi.domain.vocabulary.errors import OutOfBudget
from navi.domain.vocabulary.events import PlanningPhaseCompleted
from navi.domain.vocabulary.ids import CallId, SubagentId
from navi.ports.pictures import NotShown
from navi.projections.context import ContextState

log = structlog.get_logger()

ActorStep = Deliver | MakePlan | LeavePlan | Compress | AskModel | RunTools


async def run_actor(
    run: RunningTurn, subagent_id: SubagentId | None, halt: asyncio.Event | None = None
) -> Finish | WaitForApproval | None:
    """Run an actor until it has nothing left to do, or can do nothing until a person decides.

    Args:
        halt: ends a subagent, also before its turn is to halt.

    Returns:
        How it ended, or that it waits; None where the turn is no longer run here, or the subagent is to halt.

    Raises:
        Fenced: the turn is another's; nothing more may be done.
        NoModel: there is nothing to ask.
    """
    recorder = InTurn(run.record, run.runner, subagent_id, halt, run.partial_replies)
    with KeptSlot() as kept:
        return await _take_steps(run, recorder, kept)


async def _take_steps(
    run: RunningTurn, recorder: InTurn, kept: KeptSlot
) -> Finish | WaitForApproval | None:
    record, agent, subagent_id = run.record, run.agent, recorder.subagent_id
    while record.runner() == run.runner:
        if recorder.halt.is_set() and not record.halt.is_set():
            return None
        await agent.tools.look()
        profile = await profile_of_actor(record, agent.profiles, subagent_id)
        turn = record.session.turn  # as it is now: reading the profile took time
        if turn is None:
            return None
        step = next_turn_step(turn, subagent_id, await _limits(run, subagent_id, profile))
        if isinstance(step, Finish | WaitForApproval):
            return step
        if isinstance(step, Compress):
            kept.give_back()  # its own call waits in line
        try:
            ended = await _take(step, run, recorder, profile, kept)
        except OutOfBudget:
            continue  # it stands in the log: the next step is the end
        if ended is not None:
            return ended
    return None


async def _take(
    step: ActorStep, run: RunningTurn, recorder: InTurn, profile: ServedProfile, kept: KeptSlot
) -> Finish | None:
    """Take a step; gives the end where there is no room for what it would take."""
    record, agent, subagent_id = run.record, run.agent, recorder.subagent_id
    match step:
        case Deliver():
            await record.execute(DeliverMessages(runner=run.runner), retry=True)
        case MakePlan():
            question = await _question(run, subagent_id, profile, kept)
            executors = await _executors(agent, profile)
            await make_plan(agent.ask_model, recorder, step, question, executors)
        case LeavePlan(phase=phase, call_id=call_id, error=error):
            left = PlanningPhaseCompleted(
                phase=phase, call_id=call_id, output=error, verdict=FAILED
            )
            await recorder(left)
        case Compress(trigger=trigger):
            context = await with_retry(lambda: record.context_of(subagent_id))
            await agent.compress(
                recorder,
                context,
                profile,
                trigger,
                partial(_begun, run, context, subagent_id, profile),
                overflowed=_overflowed(run, subagent_id),
            )
        case AskModel():
            if await _guide(run, recorder, step, profile):
                return None
            await _show_pictures(run, recorder, profile)
            question = await _question(run, subagent_id, profile, kept)
            question = replace(question, iteration=step.iteration, attempts=step.attempts)
            if step.last:
                question = replace(question, tools=())
            try:
                await agent.ask_model(recorder, question)
            except NoRoom:
                if not _stays_cut_off(run, subagent_id):
                    raise
                return Finish(ending=Completed(limit_reached=False))
        case RunTools(runs=runs):
            await _run_tools(run, recorder, runs, profile)
        case _:
            assert_never(step)
    return None


async def _run_tools(
    run: RunningTurn, recorder: InTurn, runs: tuple[ToolRun, ...], profile: Profile
) -> None:
    """Run the calls until each has ended or waits for a person.

    A subagent that waits goes on once a person has decided, while others are at work.
    """

    async def run_one(tool_run: ToolRun) -> None:
        actions = Actions(run, recorder, tool_run.call.id, run_actor, profile.models)
        await run.agent.run_tool(recorder, tool_run, profile, actions)

    at_work: dict[CallId, asyncio.Task[None]] = {}
    wanted = frozenset(one.call.id for one in runs)
    try:
        async with asyncio.TaskGroup() as tasks:
            while True:
                seen = run.record.seq
                turn = None if recorder.halt.is_set() else run.record.session.turn
                own = () if turn is None else turn.actor(recorder.subagent_id).tools
                waiting = frozenset(one.call.id for one in own if turn and waits(turn, one))
                ready = wanted - waiting - at_work.keys()
                at_work |= {
                    one.call.id: tasks.create_task(run_one(one))
                    for one in own
                    if one.call.id in ready
                }
                if not at_work:
                    return
                await _first_end(run, at_work.values(), seen=seen if wanted & waiting else None)
                at_work = {id_: task for id_, task in at_work.items() if not task.done()}
    except BaseExceptionGroup as group:
        # One of them says it all: the others were cancelled for it.
        raise group.exceptions[0] from group


async def _first_end(
    run: RunningTurn, at_work: Collection[asyncio.Task[None]], *, seen: int | None
) -> None:
    """Wait until one of the calls has ended; with ``seen`` also until something else happened."""
    if seen is None:
        await asyncio.wait(at_work, return_when=asyncio.FIRST_COMPLETED)
        return
    news = asyncio.ensure_future(run.record.beyond(seen))
    try:
        await asyncio.wait({news, *at_work}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        news.cancel()


async def _limits(run: RunningTurn, subagent_id: SubagentId | None, profile: Profile) -> Limits:
    turn = run.record.session.turn
    planning = turn is not None and (
        turn.planning if subagent_id is None else profile.planning_enabled and not turn.plain
    )
    context = await with_retry(lambda: run.record.context_of(subagent_id))
    fill = await run.agent.compress.fill(context, profile, overflowed=_overflowed(run, subagent_id))
    return Limits(
        max_iterations=profile.max_iterations,
        planning=planning,
        second_phase=profile.planning_phase2_enabled,
        due=subagent_id is None and bool(due_messages(run.record.session)),
        full=fill.full,
        room=fill.room,
    )


def _overflowed(run: RunningTurn, subagent_id: SubagentId | None) -> bool:
    """Whether a server has just refused the actor's context for length."""
    turn = run.record.session.turn
    attempts = turn.actor(subagent_id).attempts if turn is not None else ()
    return bool(attempts) and attempts[-1].kind == "overflow"


def _stays_cut_off(run: RunningTurn, subagent_id: SubagentId | None) -> bool:
    """Whether there is an answer already, to which only the rest is missing."""
    turn = run.record.session.turn
    return turn is not None and turn.actor(subagent_id).cut_off == "answer"


async def _guide(run: RunningTurn, recorder: InTurn, step: AskModel, profile: Profile) -> bool:
    """Log the guidance that is due; whether there was any."""
    turn = run.record.session.turn
    if turn is None:
        return False
    actor = turn.actor(recorder.subagent_id)
    todo = await with_retry(run.record.todo)
    cut_off = cut_off_words(actor.cut_off, said=bool(actor.answer)) if goes_on(actor) else None
    given = due_guidance(
        profile,
        actor.progress,
        iterations=step.iteration - 1,
        max_iterations=profile.max_iterations,
        goal=actor.goal or await goal_of(run),
        todo=todo.state.items,
        cut_off=cut_off,
    )
    await recorder(*given)
    return bool(given)


async def _show_pictures(run: RunningTurn, recorder: InTurn, profile: Profile) -> None:
    """Log the pictures of messages, where the model that is asked next sees."""
    if recorder.subagent_id is not None:
        return
    context = await with_retry(run.record.context)
    rows = (row for _, row in context.rows.visible() if row.turn_id == run.runner.turn_id)
    named = due_pictures(rows, run.record.session.uploads)
    due = [each for each in named if each.path not in run.unshown]
    if not due or not await run.agent.ask_model.sees(profile.models):
        return
    for each in due:
        if recorder.halt.is_set():
            return
        try:
            await run.agent.show_picture(recorder, each.path, call_id=each.message_id)
        except NotShown as error:
            run.unshown.add(each.path)
            log.info("picture_not_shown", session_id=run.record.id, error=str(error))


async def goal_of(run: RunningTurn) -> str:
    """The goal of the turn: the text of its latest user message."""
    context = await with_retry(run.record.context)
    for _, message in reversed(context.rows.visible()):
        if message.role != "user" or message.is_guidance:
            continue
        # A compression inside the turn has taken the message itself out of sight, and quotes it.
        said = quoted_request(message.content) if message.is_summary else message.content
        if said:
            return said
    return ""


async def _question(
    run: RunningTurn, subagent_id: SubagentId | None, profile: ServedProfile, kept: KeptSlot
) -> Question:
    context = await with_retry(lambda: run.record.context_of(subagent_id))
    question = _begun(run, context, subagent_id, profile)
    if subagent_id is not None:
        return question  # nobody speaks to a subagent
    is_due = partial(_is_another, run, question, profile)
    return replace(question, anew=AskedAnew(is_due=is_due, kept=kept))


async def _is_another(run: RunningTurn, question: Question, profile: ServedProfile) -> bool:
    """Whether the agent would be asked another question by now; this one may have waited for minutes."""
    record = run.record
    if record.seq == question.context_seq:
        return False  # nothing has happened
    if due_messages(record.session) or record.session.profile_id != profile.id:
        return True
    # A memory was forgotten that it quotes, say, or a compression undone.
    context = await with_retry(record.context)
    return _begun(run, context, None, profile).messages != question.messages


def _begun(
    run: RunningTurn,
    context: Fold[ContextState],
    subagent_id: SubagentId | None,
    profile: ServedProfile,
) -> Question:
    """What every call of an actor has in common."""
    return compose_request(
        run.record,
        context,
        profile,
        run.agent.tools,
        subagent_id=subagent_id,
        turn_id=run.runner.turn_id,
    )


async def _executors(agent: Agent, profile: Profile) -> Executors:
    profiles = await agent.profiles.files.all()
    return Executors(
        tools=tuple(tool.name for tool in offered_tools(agent.tools, profile)),
        profiles={e.id: e.profile.description for e in profiles if e.profile is not None},
    )
