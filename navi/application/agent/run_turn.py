"""Run the turns of a session, one after another; all state is in the log."""

from collections.abc import Callable

import structlog

from navi.application.agent.actor_profile import profile_of
from navi.application.agent.model_calls.call_bounds import NoRoom
from navi.application.agent.model_calls.question import NoModel
from navi.application.agent.model_calls.recorders import InTurn
from navi.application.agent.recall import recall
from navi.application.agent.run_actor import goal_of, run_actor
from navi.application.agent.running_turn import Agent, RunningTurn
from navi.application.agent.turn_places import TurnPlaces
from navi.application.session.record import Record
from navi.application.session.retry import with_retry
from navi.domain.session.commands import (
    Completed,
    Ending,
    EndTurn,
    Failed,
    Runner,
    StartTurn,
    TakeUpTurn,
    TellPlace,
    TurnStart,
)
from navi.domain.session.session import GoOn, OpenTurn, Wait, next_step
from navi.domain.session.turn import CONTEXT_OVERFLOW, WaitForApproval
from navi.domain.vocabulary.errors import Fenced, NothingToDeliver, NoTurn, TurnUnderway
from navi.domain.vocabulary.ids import TurnId
from navi.failpoints import failpoint
from navi.log_error import log_error

log = structlog.get_logger()


async def run_session(
    record: Record,
    agent: Agent,
    *,
    may_open: Callable[[], bool],
    completed: Callable[[], None],
) -> None:
    """Run the session's turns until none is left for this process.

    Args:
        may_open: whether this process opens turns; what waits is then left to another one.
        completed: called after each turn that was completed here.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    owner, places = record.session.owner, agent.places
    while True:
        match next_step(record.session):
            case Wait():
                places.withdraw(record.id)
                return
            case OpenTurn():
                if not may_open():
                    return
                if not await places.take(owner, record.id):
                    await _tell_place(record, places)
                    return
                if not await _open_turn(record, agent):
                    return
            case GoOn():
                runner = record.runner()
                if runner is None and may_open():
                    runner = await _take_up(record, agent)
                if runner is None:
                    return  # it is another process's
                await places.take_if_free(owner, record.id)
                if await _run_turn(record, runner, agent):
                    completed()
                await places.leave(record.id)  # its next turn waits behind those of other sessions


async def _tell_place(record: Record, places: TurnPlaces) -> None:
    place = places.place(record.id)
    if place is not None:
        await record.execute(TellPlace(place=place))


async def _open_turn(record: Record, agent: Agent) -> bool:
    """Start a turn for the oldest waiting message; False if another process was first."""
    profile = await profile_of(record, agent.profiles)
    start = TurnStart(
        turn_id=TurnId(agent.ids.uuid()), node=agent.node, planning=profile.planning_enabled
    )
    try:
        await record.execute(StartTurn(start=start))
    except (TurnUnderway, NothingToDeliver):
        return record.runner() is not None
    return True


async def _take_up(record: Record, agent: Agent) -> Runner | None:
    """Go on with another process's turn that has waited for a person; None where that one runs it."""
    turn = record.session.turn
    if turn is None or not turn.parked:
        return None
    try:
        await record.execute(TakeUpTurn(node=agent.node))
    except (TurnUnderway, NoTurn):
        return record.runner()
    return record.runner()


async def _run_turn(record: Record, runner: Runner, agent: Agent) -> bool:
    """Run one turn until it ends, waits for a person or is taken over; whether it completed here."""
    bound = log.bind(session_id=record.id, turn_id=runner.turn_id)
    run = RunningTurn(record=record, runner=runner, agent=agent, partial_replies={}, unshown=set())
    await failpoint("turn.started")
    try:
        await recall(InTurn(record, runner, None), agent.memories, await goal_of(run))
        step = await run_actor(run, None)
        if step is None:
            bound.info("turn_lost")
            return False
        if isinstance(step, WaitForApproval):
            bound.info("turn_waits")
            return False
        await _end(run, step.ending)
    except Fenced:
        bound.info("turn_lost")
        return False
    except NoModel as error:
        await _end(run, Failed(kind="no_model", error=error.error))
        return False
    except NoRoom as error:
        await _end(run, Failed(kind=CONTEXT_OVERFLOW, error=error.error))
        return False
    except Exception as error:  # noqa: BLE001 - a border: a turn must end, whatever went wrong in it
        log_error(bound, "turn_broke", error)
        run.partial_replies.update(await with_retry(record.partial_replies))
        await _end(run, Failed(kind="internal", error=f"{type(error).__name__}: {error}"))
        return False
    return isinstance(step.ending, Completed)


async def _end(run: RunningTurn, ending: Ending) -> None:
    await failpoint("turn.before_end")
    command = EndTurn(runner=run.runner, ending=ending, partial_replies=run.partial_replies)
    try:
        await run.record.execute(command, retry=True)
    except Fenced:
        log.info("turn_lost", session_id=run.record.id, turn_id=run.runner.turn_id)
        return
    await failpoint("turn.after_end")
