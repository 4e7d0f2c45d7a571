"""Subagents, planning and calls beside the turns, as the session sees them."""

from typing import Literal

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from navi.domain.session.commands import (
    AnswerAsides,
    Completed,
    EndSubagent,
    EndTurn,
    PartialReply,
    RecordAside,
    RecordOutcome,
    ResumeTurn,
    ReviseRecall,
    Stopped,
)
from navi.domain.session.session import Session, evolve
from navi.domain.session.turn import (
    COMPRESS_AGAIN,
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
from navi.domain.vocabulary.errors import RuleBroken
from navi.domain.vocabulary.events import (
    AgentEvent,
    CompressionFailed,
    ContextCompressed,
    MemoryRecalled,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    Purpose,
    SessionRenamed,
    SubagentFinished,
    SubagentStarted,
    TodoItem,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnResumed,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, MessageId, NodeId, SubagentId
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


def called(
    call_id: str, purpose: Purpose = "turn", *, node: NodeId | UnsetType = UNSET
) -> ModelCalled:
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
        node=node,
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

    assert step_of(session, SUB) == Finish(ending=Completed(limit_reached=False))
    assert isinstance(step_of(session, None), RunTools)
    assert session.context_token_count == 10


def test_the_window_is_the_one_that_the_agents_last_call_reckoned_with() -> None:
    def calling(call_id: str, window: int, purpose: Purpose = "turn") -> ModelCalled:
        return replace(called(call_id, purpose), options={"num_ctx": window})

    session = fold((*OPEN, calling("c0", 1000, "planning"), replied("c0")))
    assert session.context_window is None

    session = after(session, calling("c1", 2000), replied("c1", SPAWN), started(SPAWN))
    session = after(session, spawned(SPAWN), calling("s1", 3000), by=SUB)
    assert session.context_window == 2000

    session = after(session, calling("a1", 4000, "naming"))
    assert session.context_window == 2000


def ending(result: str, *, completed: bool = True) -> EndSubagent:
    return EndSubagent(
        runner=RUNNER,
        subagent_id=SUB,
        result=result,
        completed_normally=completed,
        partial_replies={CallId("s1"): PartialReply(text="half", said=4)},
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
    stop = EndTurn(
        runner=RUNNER,
        ending=Stopped(by="user"),
        partial_replies={CallId("d1"): PartialReply(text="half", said=4)},
    )

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
        partial_replies={},
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


DONE = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
COMPLETED = (*OPEN, called("c1"), replied("c1"), DONE)
INTERRUPTED = ModelCallFailed(
    call_id=CallId("m1"), kind="interrupted", error="", partial_text="", will_retry=False
)


def test_a_call_beside_the_turns_is_answered_once() -> None:
    naming = called("n1", "naming", node=NODE)
    name = SessionRenamed(name="Trip", by="auto")
    session, _ = perform(fold(COMPLETED), RecordAside(events=(naming,)))
    assert session.unfinished

    session, appended = perform(session, RecordAside(events=(replied("n1"), name)))

    assert session.asides == ()
    assert [item.turn_id for item in appended] == [None, None]
    with pytest.raises(RuleBroken):
        perform(session, RecordAside(events=(replied("n1"),)))


def test_a_call_beside_the_turns_does_not_disturb_an_open_turn() -> None:
    naming = called("n1", "naming", node=NODE)
    session, _ = perform(fold(COMPLETED), RecordAside(events=(naming,)))
    session = after(session, HELLO, STARTED, DELIVERED, called("c1"))

    session, _ = perform(session, RecordAside(events=(replied("n1"),)))

    assert session.asides == ()
    assert session.turn is not None
    assert session.turn.actor(None).call is not None
    assert session.turn.usage == Usage()


def test_calls_of_a_process_that_is_gone_are_closed() -> None:
    events = (called("n1", "naming", node=NODE), called("n2", "memory", node=OTHER_NODE))
    session, _ = perform(fold(COMPLETED), RecordAside(events=events))

    session, appended = perform(session, AnswerAsides(nodes=frozenset({NODE})))

    assert [type(item.event) for item in appended] == [ModelCallFailed]
    assert [call.id for call in session.asides] == [CallId("n2")]


def test_what_follows_a_turn_is_due_until_a_call_settles_it() -> None:
    session = fold(COMPLETED)
    assert session.follow_up is not None
    assert (session.follow_up.node, session.follow_up.due) == (NODE, ("naming", "memory"))

    session, _ = perform(session, RecordAside(events=(called("m1", "memory", node=NODE),)))
    session, _ = perform(session, RecordAside(events=(INTERRUPTED,)))
    assert session.owes("memory")

    session, _ = perform(session, RecordAside(events=(called("m2", "memory", node=OTHER_NODE),)))
    session, _ = perform(session, RecordAside(events=(replied("m2"),)))
    assert not session.owes("memory")
    assert session.unfinished

    session = after(session, SessionRenamed(name="Trip", by="user"))
    assert session.follow_up is None
    assert not session.unfinished


def test_turns_in_which_nobody_looked_for_memories_wait_for_the_next_time() -> None:
    another = (HELLO, STARTED, DELIVERED, DONE)
    session = after(fold(COMPLETED), *another)
    assert session.follow_up is not None
    assert len(session.follow_up.turns) == 2

    session, _ = perform(session, RecordAside(events=(called("m1", "memory", node=NODE),)))
    session, _ = perform(session, RecordAside(events=(replied("m1"),)))
    session = after(session, *another)

    assert session.follow_up is not None
    assert len(session.follow_up.turns) == 1


def test_of_two_processes_that_follow_a_turn_one_does() -> None:
    session, _ = perform(fold(COMPLETED), RecordAside(events=(called("m1", "memory", node=NODE),)))
    again = RecordAside(events=(called("m2", "memory", node=OTHER_NODE),))
    with pytest.raises(RuleBroken):
        perform(session, again)

    session, _ = perform(session, RecordAside(events=(replied("m1"),)))
    with pytest.raises(RuleBroken):
        perform(session, again)


def test_a_call_that_follows_the_turn_before_settles_nothing_of_the_next() -> None:
    session, _ = perform(fold(COMPLETED), RecordAside(events=(called("m1", "memory", node=NODE),)))
    session = after(session, HELLO, STARTED, DELIVERED, DONE)

    session, _ = perform(session, RecordAside(events=(replied("m1"),)))

    assert session.owes("memory")


# --- within the turn ----------------------------------------------------------------------------


def test_a_summary_that_was_of_no_use_is_asked_for_again_when_the_context_has_grown() -> None:
    full = Limits(max_iterations=20, full=True)
    session = after(fold(OPEN), CompressionFailed(error="not shorter"))
    asked: list[bool] = []
    for number in range(COMPRESS_AGAIN + 1):
        asked.append(isinstance(next_of(session, full), Compress))
        done = ToolFinished(call_id=READ.id, name=READ.name, outcome="ok", output="")
        call_id = f"c{number}"
        session = after(session, called(call_id), replied(call_id, READ), started(READ), done)

    assert asked == [False] * COMPRESS_AGAIN + [True]


def failed_step(status: Literal["failed", "done"] = "failed") -> TodoUpdated:
    return TodoUpdated(items=(TodoItem(id="1", text="dig", status=status),))


def test_a_step_that_failed_in_an_earlier_turn_asks_for_no_other_way_again() -> None:
    session = after(fold(OPEN), failed_step(), DONE)
    session = after(session, HELLO, STARTED, DELIVERED, failed_step())

    assert session.turn is not None
    assert not session.turn.actor(None).progress.replan_due


def test_what_a_subagent_gets_done_is_progress_of_the_agent() -> None:
    spawned = (called("c1"), replied("c1", SPAWN), started(SPAWN))
    session = after(fold(OPEN), failed_step(), *spawned)
    child = SubagentStarted(call_id=SPAWN.id, profile_id="assistant", task="find")
    session = evolve(session, envelope(child, seq=session.seq + 1, turn_id=TURN, subagent_id=SUB))

    session = evolve(
        session,
        envelope(failed_step("done"), seq=session.seq + 1, turn_id=TURN, subagent_id=SUB),
    )

    assert session.turn is not None
    progress = session.turn.actor(None).progress
    assert (progress.statuses, progress.replan_due) == ({"1": "done"}, False)
    assert session.turn.actor(SUB).progress.statuses == {"1": "done"}


def test_a_memory_that_is_forgotten_leaves_the_recall_of_the_open_turn() -> None:
    recalled = MemoryRecalled(
        memory_ids=("a", "b"), content="## What I remember about the user\n\n- tea\n- cake"
    )
    session = after(fold(OPEN), recalled)

    session, appended = perform(session, ReviseRecall(memory_id="a", old="tea", new=None))

    assert [item.event for item in appended] == [
        MemoryRecalled(memory_ids=("b",), content="## What I remember about the user\n\n- cake")
    ]
    assert appended[0].turn_id == TURN
    assert perform(session, ReviseRecall(memory_id="a", old="tea", new=None))[1] == []
    assert perform(fold(COMPLETED), ReviseRecall(memory_id="a", old="tea", new=None))[1] == []


@pytest.mark.parametrize("planning", [True, False])
def test_a_turn_knows_whether_whoever_asked_wants_no_plan(planning: bool) -> None:
    said = replace(HELLO, planning=planning)
    session = after(fold((CREATED, said, STARTED)), DELIVERED)
    steered = replace(HELLO, message_id=MessageId("m9"), mode="steer", planning=False)
    session = after(session, steered)
    session = after(session, MessageDelivered(message_seq=session.seq))

    assert session.turn is not None
    assert session.turn.plain is not planning
