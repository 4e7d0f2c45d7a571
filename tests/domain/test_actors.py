"""Subagents, planning and calls beside the turns, as the session sees them."""

from typing import Literal

import pytest

from navi.domain.commands import (
    AnswerAsides,
    EndSubagent,
    EndTurn,
    RecordAside,
    RecordOutcome,
    ResumeTurn,
    Stopped,
)
from navi.domain.errors import RuleBroken
from navi.domain.events import (
    AgentEvent,
    ContextCompressed,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    Purpose,
    SessionRenamed,
    SubagentFinished,
    SubagentStarted,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnResumed,
    TurnStopped,
    Usage,
)
from navi.domain.ids import CallId, NodeId, SubagentId
from navi.domain.session import Session, evolve
from navi.domain.turn import (
    MAX_SIDE_BY_SIDE,
    AskModel,
    Compress,
    Finish,
    Limits,
    MakePlan,
    RunTools,
    next_turn_step,
    why_not_spawn,
)
from tests.domain.specification import (
    NODE,
    OTHER_NODE,
    RUNNER,
    TURN,
    envelope,
    fold,
    next_of,
    perform,
)
from tests.domain.test_session import CREATED, DELIVERED, HELLO, OPEN, STARTED

SUB = SubagentId("subagent_00000000000a")
DEEPER = SubagentId("subagent_00000000000b")
SPAWN = ToolCall(id=CallId("call_s1"), name="spawn_agent", arguments={"task": "find"})
SPAWN_2 = ToolCall(id=CallId("call_s2"), name="spawn_agent", arguments={"task": "look"})
READ = ToolCall(id=CallId("call_r"), name="filesystem", arguments={})
PLENTY = Limits(max_iterations=20)


def called(call_id: str, purpose: Purpose = "turn", **more: NodeId) -> ModelCalled:
    return ModelCalled(
        call_id=CallId(call_id),
        purpose=purpose,
        model="m",
        backend="b",
        iteration=1,
        request_sha256="",
        context_seq=0,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="r/1",
        **more,
    )


def replied(call_id: str, *calls: ToolCall, content: str = "") -> ModelReplied:
    return ModelReplied(
        call_id=CallId(call_id),
        content=content,
        thinking="",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(prompt_tokens=10),
        duration_ms=1,
        first_chunk_ms=1,
    )


def started(call: ToolCall) -> ToolStarted:
    return ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments)


def spawned(call: ToolCall) -> SubagentStarted:
    return SubagentStarted(call_id=call.id, profile_id="researcher", task="find")


def after(session: Session, *events: AgentEvent, by: SubagentId | None = None) -> Session:
    for event in events:
        new = envelope(event, seq=session.seq + 1, turn_id=TURN, subagent_id=by)
        session = evolve(session, new)
    return session


def with_subagent() -> Session:
    session = fold((*OPEN, called("c1"), replied("c1", SPAWN, SPAWN_2, READ), started(SPAWN)))
    return after(session, spawned(SPAWN), by=SUB)


def step_of(session: Session, by: SubagentId | None, limits: Limits = PLENTY) -> object:
    assert session.turn is not None
    return next_turn_step(session.turn, by, limits)


# --- subagents ----------------------------------------------------------------------------------


def test_subagents_of_one_reply_run_side_by_side_and_other_tools_do_not() -> None:
    session = fold((*OPEN, called("c1"), replied("c1", SPAWN, SPAWN_2, READ)))
    many = tuple(
        ToolCall(id=CallId(f"call_{n}"), name="spawn_agent", arguments={}) for n in range(9)
    )

    step = next_of(session, PLENTY)
    assert isinstance(step, RunTools)
    assert [run.call for run in step.runs] == [SPAWN, SPAWN_2]
    bounded = next_of(fold((*OPEN, called("c1"), replied("c1", *many))), PLENTY)
    assert isinstance(bounded, RunTools)
    assert len(bounded.runs) == MAX_SIDE_BY_SIDE


def test_a_subagent_has_a_loop_of_its_own() -> None:
    session = with_subagent()
    assert step_of(session, SUB) == AskModel(iteration=1, last=False, attempts=())

    session = after(session, called("s1"), replied("s1", content="found"), by=SUB)

    assert step_of(session, SUB) == Finish(why="completed")
    assert isinstance(step_of(session, None), RunTools)
    assert session.context_token_count == 10


def ending(result: str, *, completed: bool = True) -> EndSubagent:
    return EndSubagent(
        runner=RUNNER,
        subagent_id=SUB,
        result=result,
        completed_normally=completed,
        partial_texts={CallId("s1"): "half"},
    )


def test_a_subagent_comes_back_once() -> None:
    session, appended = perform(with_subagent(), ending("found"))

    finished = SubagentFinished(call_id=SPAWN.id, result="found", completed_normally=True)
    assert [(item.event, item.subagent_id) for item in appended] == [(finished, SUB)]
    assert session.turn is not None
    assert session.turn.returned == {SPAWN.id: finished}
    assert session.turn.subagent_of(SPAWN.id) is None
    with pytest.raises(RuleBroken):
        perform(session, ending("again"))


def test_a_subagent_that_is_ended_answers_what_it_left_open_and_nothing_else() -> None:
    session = after(with_subagent(), called("s1"), replied("s1", SPAWN_2), started(SPAWN_2), by=SUB)
    session = after(session, spawned(SPAWN_2), by=DEEPER)

    session, appended = perform(session, ending("", completed=False))

    assert [(type(item.event), item.subagent_id) for item in appended] == [
        (SubagentFinished, DEEPER),
        (ToolFinished, SUB),
        (SubagentFinished, SUB),
    ]
    assert isinstance(step_of(session, None), RunTools)


def test_a_call_has_one_subagent() -> None:
    again = RecordOutcome(runner=RUNNER, events=(spawned(SPAWN),), subagent_id=DEEPER)
    not_started = RecordOutcome(runner=RUNNER, events=(spawned(SPAWN_2),), subagent_id=DEEPER)

    for command in (again, not_started):
        with pytest.raises(RuleBroken):
            perform(with_subagent(), command)


def test_stopping_the_parent_stops_the_tree_from_its_leaves() -> None:
    session = after(with_subagent(), called("s1"), replied("s1", SPAWN_2), started(SPAWN_2), by=SUB)
    session = after(session, spawned(SPAWN_2), by=DEEPER)
    session = after(session, called("d1"), by=DEEPER)
    stop = EndTurn(runner=RUNNER, ending=Stopped(by="user"), partial_texts={CallId("d1"): "half"})

    session, appended = perform(session, stop)

    assert session.turn is None
    assert [(type(item.event), item.subagent_id) for item in appended] == [
        (ModelCallFailed, DEEPER),
        (SubagentFinished, DEEPER),
        (ToolFinished, SUB),
        (SubagentFinished, SUB),
        (ToolFinished, None),
        (ToolFinished, None),
        (ToolFinished, None),
        (TurnStopped, None),
    ]


def test_a_subagent_that_a_crash_cut_off_goes_on() -> None:
    session = after(with_subagent(), called("s1"), by=SUB)
    resume = ResumeTurn(
        node=OTHER_NODE,
        handed_over=False,
        partial_texts={},
        repeatable=frozenset({SPAWN.id}),
    )

    session, appended = perform(session, resume)

    assert [type(item.event) for item in appended] == [TurnResumed, ModelCallFailed]
    assert session.turn is not None
    assert session.turn.subagent_of(SPAWN.id) == SUB
    assert step_of(session, SUB) == AskModel(iteration=1, last=False, attempts=())


def test_nesting_has_a_limit() -> None:
    session = after(with_subagent(), called("s1"), replied("s1", SPAWN_2), started(SPAWN_2), by=SUB)
    session = after(session, spawned(SPAWN_2), by=DEEPER)
    assert session.turn is not None

    assert why_not_spawn(session.turn, None) is None
    assert why_not_spawn(session.turn, SUB) is None
    assert why_not_spawn(session.turn, DEEPER) is not None


# --- planning -----------------------------------------------------------------------------------


def phase(number: Literal[1, 2, 3], verdict: str) -> PlanningPhaseCompleted:
    return PlanningPhaseCompleted(
        phase=number,
        call_id=CallId("p"),
        output=f"output {number}",
        verdict=verdict,
    )


def planning_step(*phases: PlanningPhaseCompleted, second: bool = True) -> object:
    limits = Limits(max_iterations=20, planning=True, second_phase=second)
    return next_of(fold((*OPEN, *phases)), limits)


def test_a_plan_is_made_in_the_phases_that_the_analysis_asks_for() -> None:
    ask = AskModel(iteration=1, last=False, attempts=())

    assert planning_step() == MakePlan(phase=1, attempts=())
    assert planning_step(phase(1, "direct")) == ask
    assert planning_step(phase(1, "plan")) == MakePlan(phase=3, attempts=())
    assert planning_step(phase(1, "reflect")) == MakePlan(phase=2, attempts=())
    assert planning_step(phase(1, "reflect"), second=False) == MakePlan(phase=3, attempts=())
    reviewed = (phase(1, "reflect"), phase(2, "plan"))
    assert planning_step(*reviewed) == MakePlan(phase=3, attempts=())
    assert planning_step(*reviewed, phase(3, "malformed")) == ask


# --- compression --------------------------------------------------------------------------------


def test_a_full_context_is_compressed_before_the_next_call_once() -> None:
    full = Limits(max_iterations=20, full=True)
    compressed = ContextCompressed(
        summary="- x", kept_from_seq=3, tokens_before=9, tokens_after=5, trigger="pre_turn"
    )

    assert next_of(fold(OPEN), full) == Compress(trigger="pre_turn")
    assert isinstance(next_of(fold((*OPEN, compressed)), full), AskModel)
    later = (*OPEN, called("c1"), replied("c1", READ), started(READ))
    done = ToolFinished(call_id=READ.id, name="filesystem", outcome="ok", output="")
    assert next_of(fold((*later, done)), full) == Compress(trigger="in_turn")


# --- beside the turns ---------------------------------------------------------------------------


def test_a_call_beside_the_turns_is_answered_once() -> None:
    naming = called("n1", "naming", node=NODE)
    name = SessionRenamed(name="Trip", by="auto")
    session, _ = perform(fold((CREATED,)), RecordAside(events=(naming,)))
    assert session.unfinished

    session, appended = perform(session, RecordAside(events=(replied("n1"), name)))

    assert not session.unfinished
    assert [item.turn_id for item in appended] == [None, None]
    with pytest.raises(RuleBroken):
        perform(session, RecordAside(events=(replied("n1"),)))


def test_a_call_beside_the_turns_does_not_disturb_an_open_turn() -> None:
    session, _ = perform(fold((CREATED,)), RecordAside(events=(called("n1", "naming", node=NODE),)))
    session = after(session, HELLO, STARTED, DELIVERED, called("c1"))

    session, _ = perform(session, RecordAside(events=(replied("n1"),)))

    assert session.asides == ()
    assert session.turn is not None
    assert session.turn.actor(None).call is not None
    assert session.turn.usage == Usage()


def test_calls_of_a_process_that_is_gone_are_closed() -> None:
    events = (called("n1", "naming", node=NODE), called("n2", "memory", node=OTHER_NODE))
    session, _ = perform(fold((CREATED,)), RecordAside(events=events))

    session, appended = perform(session, AnswerAsides(nodes=frozenset({NODE})))

    assert [type(item.event) for item in appended] == [ModelCallFailed]
    assert [call.id for call in session.asides] == [CallId("n2")]
