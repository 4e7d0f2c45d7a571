"""What holds for every session, whatever is asked of it in whatever order."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from navi.domain.session.commands import (
    CreateSession,
    DecideApproval,
    DeleteSession,
    DeliverMessages,
    EndTurn,
    ReceiveMessage,
    RecordOutcome,
    RequestStop,
    ResumeTurn,
    Runner,
    StartTurn,
    TakeUpTurn,
    TurnStart,
)
from navi.domain.session.session import Session, Wait, evolve, next_step, undecided_calls
from navi.domain.session.turn import AskModel, Deliver, Finish, Limits, RunTools, ToolRun
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, NodeId, TurnId
from tests.domain.specification import NODE, OTHER_NODE, SESSION, envelope, next_of, perform

ENDS = (TurnCompleted, TurnStopped, TurnFailed)


class SessionUnderFire(RuleBasedStateMachine):
    """People, runners on two nodes, stops, crashes and take-overs in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session(id=SESSION)
        self.log: list[Envelope] = []
        self.counter = 0
        self.do(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))

    def do(self, command: Any) -> bool:
        try:
            self.session, appended = perform(self.session, command)
        except NaviError:
            return False
        self.log.extend(appended)
        return True

    def number(self) -> int:
        self.counter += 1
        return self.counter

    @property
    def runner(self) -> Runner:
        assert self.session.turn is not None
        return Runner(turn_id=self.session.turn.id, attempt=self.session.turn.attempt)

    def start(self, node: NodeId) -> TurnStart:
        return TurnStart(turn_id=TurnId(f"turn-{self.number()}"), node=node)

    @rule(node=st.sampled_from([NODE, OTHER_NODE]), mode=st.sampled_from(["queue", "steer"]))
    def speak(self, node: NodeId, mode: Any) -> None:
        message_id = MessageId(f"m{self.number()}")
        self.do(
            ReceiveMessage(message_id=message_id, content="x", mode=mode, start=self.start(node))
        )

    @rule()
    def stop(self) -> None:
        self.do(RequestStop(by="user"))

    @rule(
        seed=st.integers(0, 3),
        decision=st.sampled_from(["allow", "deny"]),
        scope=st.sampled_from(["once", "session"]),
    )
    @precondition(lambda self: bool(undecided_calls(self.session)))
    def decide(self, seed: int, decision: Any, scope: Any) -> None:
        undecided = undecided_calls(self.session)
        run = undecided[seed % len(undecided)]
        assert self.do(
            DecideApproval(call_id=run.call.id, decision=decision, scope=scope, by="anna")
        )

    @rule(node=st.sampled_from([NODE, OTHER_NODE]))
    @precondition(lambda self: self.session.turn is not None)
    def take_up(self, node: NodeId) -> None:
        self.do(TakeUpTurn(node=node))

    @rule(handed_over=st.booleans())
    @precondition(lambda self: self.session.turn is not None)
    def take_over(self, handed_over: bool) -> None:
        assert self.session.turn is not None
        if isinstance(next_step(self.session), Wait):
            return  # who looks for turns of dead processes leaves it alone
        node = OTHER_NODE if self.session.turn.node == NODE else NODE
        self.do(
            ResumeTurn(
                node=node, handed_over=handed_over, partial_replies={}, repeatable=frozenset()
            )
        )

    @rule(seed=st.integers(0, 5))
    def step(self, seed: int) -> None:
        """What a runner does next, as the domain says; a model and tools that answer anything."""
        match next_of(self.session, Limits(max_iterations=2)):
            case Deliver():
                assert self.do(DeliverMessages(runner=self.runner))
            case AskModel(last=last):
                self.ask(seed, last=last)
            case RunTools(runs=(ToolRun(call=call, started=False, asked=None), *_)) if seed > 2:
                asked = ApprovalRequested(
                    call_id=call.id,
                    name=call.name,
                    arguments=call.arguments,
                    reason="",
                    preview="",
                    rule="r" * (seed % 2),
                )
                assert self.do(RecordOutcome(runner=self.runner, events=(asked,)))
            case RunTools(runs=(ToolRun(call=call, started=started), *_)):
                events: list[Any] = [finished(call)]
                if not started:
                    events.insert(
                        0, ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments)
                    )
                kept = events[: 1 + seed % 2] if not started else events
                assert self.do(RecordOutcome(runner=self.runner, events=tuple(kept)))
            case Finish(ending=ending):
                assert self.do(EndTurn(runner=self.runner, ending=ending, partial_replies={}))
            case _:
                self.do(StartTurn(start=self.start(NODE)))

    def ask(self, seed: int, *, last: bool) -> None:
        turn = self.session.turn
        assert turn is not None
        open_call = turn.actor(None).call
        if open_call is None:
            assert self.do(RecordOutcome(runner=self.runner, events=(self.called(),)))
            return
        number = self.number()
        calls = tuple(
            ToolCall(id=CallId(f"t{number}-{n}"), name="tool", arguments={})
            for n in range(0 if last else seed % 3)
        )
        answer: Any = ModelReplied(
            call_id=open_call.id,
            content="",
            thinking="",
            tool_calls=calls,
            finish_reason="stop",
            usage=Usage(prompt_tokens=1),
            duration_ms=1,
            first_chunk_ms=1,
        )
        if seed >= 3:
            answer = ModelCallFailed(
                call_id=open_call.id,
                kind="connection",
                error="",
                partial_text="",
                will_retry=seed != 5,
            )
        assert self.do(RecordOutcome(runner=self.runner, events=(answer,)))

    def called(self) -> ModelCalled:
        return ModelCalled(
            call_id=CallId(f"c{self.number()}"),
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

    @rule()
    @precondition(lambda self: self.counter > 30)
    def delete(self) -> None:
        self.do(DeleteSession())

    @invariant()
    def seq_is_the_number_of_events(self) -> None:
        assert [item.seq for item in self.log] == list(range(1, len(self.log) + 1))
        assert self.session.seq == len(self.log)

    @invariant()
    def the_session_is_the_fold_of_its_events(self) -> None:
        session = Session(id=SESSION)
        for item in self.log:
            session = evolve(session, item)
        assert session == self.session

    @invariant()
    def turns_do_not_overlap_and_own_what_stands_in_them(self) -> None:
        open_turn: TurnId | None = None
        for item in self.log:
            if isinstance(item.event, TurnStarted):
                assert open_turn is None
                open_turn = item.turn_id
                assert open_turn is not None
            assert item.turn_id == open_turn
            if isinstance(item.event, ENDS):
                assert open_turn is not None
                open_turn = None
        assert open_turn == (self.session.turn.id if self.session.turn else None)

    @invariant()
    def outside_a_turn_every_call_has_its_one_answer(self) -> None:
        beside = {call.id for call in self.session.asides}
        for opened, answered in (
            (
                [id_ for id_ in self.ids(ModelCalled) if id_ not in beside],
                self.ids(ModelReplied) + self.ids(ModelCallFailed),
            ),
            (self.promised_tools(), self.ids(ToolFinished)),
        ):
            assert len(answered) == len(set(answered))
            assert set(answered) <= set(opened)
            if self.session.turn is None:
                assert sorted(answered) == sorted(opened)

    @invariant()
    def a_tool_that_ran_was_started_before(self) -> None:
        running: set[str] = set()
        for item in self.log:
            match item.event:
                case ToolStarted(call_id=call_id):
                    assert call_id not in running
                    running.add(call_id)
                case ToolFinished(call_id=call_id, outcome=outcome):
                    assert (call_id in running) == (outcome not in ("skipped", "denied"))
                case _:
                    pass

    @invariant()
    def every_approval_has_its_one_decision_before_the_call_goes_on(self) -> None:
        undecided: set[str] = set()
        for item in self.log:
            match item.event:
                case ApprovalRequested(call_id=call_id):
                    undecided.add(call_id)
                case ApprovalDecided(call_id=call_id):
                    undecided.remove(call_id)
                case ToolStarted(call_id=call_id) | ToolFinished(call_id=call_id):
                    assert call_id not in undecided
                case _:
                    pass
        assert undecided == {run.call.id for run in undecided_calls(self.session)}

    @invariant()
    def no_process_dies_over_a_turn_that_waits(self) -> None:
        turn = self.session.turn
        if turn is not None and isinstance(next_step(self.session), Wait):
            assert turn.parked

    @invariant()
    def a_message_is_delivered_or_withdrawn_once_or_waits(self) -> None:
        received = [i.seq for i in self.log if isinstance(i.event, UserMessageReceived)]
        settled = [
            i.event.message_seq
            for i in self.log
            if isinstance(i.event, MessageDelivered | MessageWithdrawn)
        ]
        waiting = [w.seq for w in self.session.waiting]
        assert sorted(settled + waiting) == received

    def ids(self, kind: type[Any]) -> list[str]:
        events: list[Any] = [item.event for item in self.log if isinstance(item.event, kind)]
        return [event.call_id for event in events]

    def promised_tools(self) -> list[str]:
        return [
            call.id
            for item in self.log
            if isinstance(item.event, ModelReplied)
            for call in item.event.tool_calls
        ]


def finished(call: ToolCall) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, outcome="ok", output="")


TestSessionUnderFire = SessionUnderFire.TestCase
TestSessionUnderFire.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


ANY_EVENT: st.SearchStrategy[AgentEvent] = st.one_of(
    st.builds(TurnStarted, node=st.just(NODE), planning=st.booleans()),
    st.builds(MessageDelivered, message_seq=st.integers(0, 5)),
    st.builds(MessageWithdrawn, message_seq=st.integers(0, 5)),
    st.builds(TurnStopped, by=st.just("x")),
    st.builds(TurnFailed, kind=st.just("x"), error=st.just("")),
    st.builds(
        ToolFinished,
        call_id=st.just(CallId("t")),
        name=st.just("n"),
        outcome=st.just("ok"),
        output=st.text(max_size=3),
    ),
    st.builds(ToolStarted, call_id=st.just(CallId("t")), name=st.just("n"), arguments=st.just({})),
    st.builds(
        ApprovalRequested,
        call_id=st.just(CallId("t")),
        name=st.just("n"),
        arguments=st.just({}),
        reason=st.just(""),
        preview=st.just(""),
        rule=st.sampled_from(["", "r"]),
    ),
    st.builds(
        ApprovalDecided,
        call_id=st.just(CallId("t")),
        decision=st.sampled_from(["allow", "deny"]),
        scope=st.sampled_from(["once", "session"]),
        by=st.just("x"),
        arguments=st.none() | st.dictionaries(st.just("a"), st.booleans()),
    ),
)


@given(st.lists(ANY_EVENT, max_size=30))
def test_evolve_takes_any_event_in_any_state(events: list[AgentEvent]) -> None:
    session = Session(id=SESSION)

    for number, event in enumerate(events, start=1):
        session = evolve(session, envelope(event, seq=number, turn_id=TurnId("t")))

    assert session.seq == len(events)
