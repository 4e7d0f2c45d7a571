"""The agent loop: ask the domain what comes next, do it, record it; it remembers nothing itself."""

from typing import assert_never

import structlog
from msgspec import Struct

from navi.application.ask_model import Answered, AskModelOnce, CutOff, NoModel, Question
from navi.application.record import Record
from navi.application.run_tool import RunToolOnce
from navi.domain.commands import (
    Completed,
    DeliverMessages,
    Ending,
    EndTurn,
    Failed,
    Runner,
    StartTurn,
    Stopped,
    TurnStart,
)
from navi.domain.errors import Fenced, NothingToDeliver, TurnUnderway
from navi.domain.ids import CallId, NodeId, TurnId
from navi.domain.profile import Profile
from navi.domain.prompt import PERSONA, ToolSchema, prompt_messages, system_text
from navi.domain.session import OpenTurn, Wait, next_step
from navi.domain.turn import AskModel, Deliver, Finish, RunTool
from navi.failpoints import failpoint
from navi.ports import Ids, Profiles, ToolBox

log = structlog.get_logger()

DEFAULT_PROFILE = "assistant"


class Agent(Struct, frozen=True, kw_only=True):
    """What a turn is run with."""

    node: NodeId
    ids: Ids
    profiles: Profiles
    tools: ToolBox
    ask_model: AskModelOnce
    run_tool: RunToolOnce


async def run_session(record: Record, agent: Agent) -> None:
    """Run the session's turns, one after another, until nothing is left to do here.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    while True:
        profile = await profile_of(record, agent.profiles)
        step = next_step(record.session, max_iterations=profile.max_iterations)
        match step:
            case Wait():
                return
            case OpenTurn():
                if not await _open_turn(record, agent):
                    return
            case _:
                runner = record.runner()
                if runner is None:
                    return
                await _run_turn(record, runner, agent)


async def _open_turn(record: Record, agent: Agent) -> bool:
    """Open a turn for the oldest waiting message; False where another process was faster."""
    start = TurnStart(turn_id=TurnId(agent.ids.uuid()), node=agent.node)
    try:
        await record.execute(StartTurn(start=start))
    except (TurnUnderway, NothingToDeliver):
        return record.runner() is not None
    return True


async def _run_turn(record: Record, runner: Runner, agent: Agent) -> None:
    """Run one turn to its end, or until it is another's."""
    bound = log.bind(session_id=record.id, turn_id=runner.turn_id)
    await failpoint("turn.started")
    try:
        await _steps(record, runner, agent)
    except Fenced:
        bound.info("turn_lost")
    except Exception as error:  # noqa: BLE001 - a border: a turn must end, whatever went wrong in it
        bound.exception("turn_broke")
        reason = f"{type(error).__name__}: {error}"
        await _end(record, runner, Failed(kind="internal", error=reason), {})


async def _steps(record: Record, runner: Runner, agent: Agent) -> None:
    partial_texts: dict[CallId, str] = {}
    while record.runner() == runner:
        profile = await profile_of(record, agent.profiles)
        step = next_step(record.session, max_iterations=profile.max_iterations)
        match step:
            case Deliver():
                await record.execute(DeliverMessages(runner=runner), patient=True)
            case AskModel():
                question = await _question(record, runner, step, profile, agent)
                try:
                    outcome = await agent.ask_model(record, runner, step, question)
                except NoModel as error:
                    await _end(record, runner, Failed(kind="no_model", error=error.error), {})
                    return
                match outcome:
                    case CutOff(call_id=call_id, shown=shown):
                        partial_texts[call_id] = shown
                    case Answered():
                        pass
                    case _:
                        assert_never(outcome)
            case RunTool():
                await agent.run_tool(record, runner, step, profile)
            case Finish():
                await _end(record, runner, _ending(step), partial_texts)
                return
            case OpenTurn() | Wait():
                return
            case _:
                assert_never(step)


def _ending(step: Finish) -> Ending:
    match step.why:
        case "completed" | "limit_reached":
            return Completed(limit_reached=step.why == "limit_reached")
        case "stopped":
            return Stopped(by=step.by)
        case "failed":
            return Failed(kind=step.kind, error=step.error)


async def _end(
    record: Record, runner: Runner, ending: Ending, partial_texts: dict[CallId, str]
) -> None:
    await failpoint("turn.before_end")
    command = EndTurn(runner=runner, ending=ending, partial_texts=partial_texts)
    await record.execute(command, patient=True)
    await failpoint("turn.after_end")


async def _question(
    record: Record, runner: Runner, step: AskModel, profile: Profile, agent: Agent
) -> Question:
    context = await record.context()
    system = system_text(PERSONA, profile.system_prompt)
    tools = () if step.last else offered_tools(agent.tools, profile)
    return Question(
        models=profile.models,
        messages=prompt_messages(
            system, [row for _, row in context.rows.visible()], turn_id=runner.turn_id
        ),
        tools=tools,
        temperature=profile.temperature,
        num_ctx=profile.num_ctx,
        think=profile.think_enabled,
        context_seq=record.seq,
    )


def offered_tools(tools: ToolBox, profile: Profile) -> tuple[ToolSchema, ...]:
    """The tools a profile lets the model use, as they are sent to it."""
    descriptions = (tool.description for tool in tools.all())
    return tuple(
        ToolSchema(name=d.name, description=d.description, parameters=d.parameters)
        for d in descriptions
        if profile.enables(d.name)
    )


async def profile_of(record: Record, profiles: Profiles) -> Profile:
    """The session's profile; the default one where it is gone."""
    profile = await profiles.get(record.session.profile_id)
    if profile is None:
        log.warning("profile_missing", profile_id=record.session.profile_id)
        profile = await profiles.get(DEFAULT_PROFILE)
    assert profile is not None  # noqa: S101 - the default profile is part of the package
    return profile
