"""The rules of a session, one example each."""

from msgspec.structs import replace

from navi.domain.session.commands import (
    Completed,
    CreateSession,
    DeleteSession,
    DeliverMessages,
    EndSubagent,
    EndTurn,
    Failed,
    PartialReply,
    PinSession,
    ReceiveMessage,
    RecordAside,
    RecordOutcome,
    RenameSession,
    RequestStop,
    ResumeTurn,
    Runner,
    StartTurn,
    Stopped,
    SwitchProfile,
    TellPlace,
    TurnStart,
)
from navi.domain.session.session import MAX_WAITING, MAX_WAITING_BYTES, OpenTurn, Wait, is_news
from navi.domain.session.turn import AskModel, Attempt, Compress, Deliver, Finish, RunTools, ToolRun
from navi.domain.vocabulary.errors import (
    Fenced,
    MessageIdReused,
    NotFound,
    NothingToDeliver,
    NoTurn,
    RuleBroken,
    TooManyWaiting,
    TurnUnderway,
)
from navi.domain.vocabulary.events import (
    CompressionFailed,
    CompressionUndone,
    ContextCompressed,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ModelWaiting,
    ProfileSwitched,
    SessionCreated,
    SessionDeleted,
    SessionPinned,
    SessionRenamed,
    StopRequested,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnResumed,
    TurnStarted,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, SubagentId
from tests.domain.specification import NODE, OTHER_NODE, RUNNER, START, TURN, TURN_2, given

CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)
HELLO = UserMessageReceived(message_id=MessageId("m1"), content="hello")
MORE = UserMessageReceived(message_id=MessageId("m2"), content="more")
STEER = UserMessageReceived(message_id=MessageId("m3"), content="rather", mode="steer")
STARTED = TurnStarted(node=NODE)
DELIVERED = MessageDelivered(message_seq=2)
OPEN = (CREATED, HELLO, STARTED, DELIVERED)
COMPLETED = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
CALL = CallId("01990000-0000-7000-8000-0000000000c1")
CALLED = ModelCalled(
    call_id=CALL,
    purpose="turn",
    model="m",
    backend="b",
    iteration=1,
    request_sha256="",
    context_seq=4,
    system_sha256=None,
    tools_sha256=None,
    options={},
    renderer="r/1",
)
WITH_TOOLS = replace(CALLED, tools_sha256="a" * 64)
LIST = ToolCall(id=CallId("call_1"), name="filesystem", arguments={"action": "list"})
READ = ToolCall(id=CallId("call_2"), name="filesystem", arguments={"action": "read"})


def replied(*calls: ToolCall, content: str = "") -> ModelReplied:
    return ModelReplied(
        call_id=CALL,
        content=content,
        thinking="",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        duration_ms=1,
        first_chunk_ms=1,
    )


def started(call: ToolCall) -> ToolStarted:
    return ToolStarted(call_id=call.id, name=call.name, arguments=call.arguments)


def finished(call: ToolCall) -> ToolFinished:
    return ToolFinished(call_id=call.id, name=call.name, outcome="ok", output="")


def compressed(*, kept_from_seq: int) -> ContextCompressed:
    return ContextCompressed(
        summary="- all of it",
        kept_from_seq=kept_from_seq,
        tokens_before=20,
        tokens_after=10,
        trigger="manual",
    )


def failed(*, will_retry: bool) -> ModelCallFailed:
    return ModelCallFailed(
        call_id=CALL, kind="connection", error="refused", partial_text="", will_retry=will_retry
    )


# --- what anybody may ask -----------------------------------------------------------------------


def test_a_session_is_created_once() -> None:
    command = CreateSession(profile_id="assistant", owner=LOCAL_OWNER)
    given().when(command).then(CREATED)
    given(CREATED).when(command).refused(RuleBroken)


def test_nothing_can_be_asked_of_a_session_that_is_not_there() -> None:
    given().when(RequestStop(by="user")).refused(NotFound)
    given(CREATED, SessionDeleted()).when(RenameSession(name="x")).refused(NotFound)


def test_a_receipt_opens_a_turn_where_none_is_open() -> None:
    command = ReceiveMessage(message_id=HELLO.message_id, content="hello", start=START)
    given(CREATED).when(command).then(HELLO, STARTED, DELIVERED)


def test_a_process_that_drains_takes_the_receipt_only() -> None:
    command = ReceiveMessage(message_id=HELLO.message_id, content="hello", start=None)
    given(CREATED).when(command).then(HELLO)


def test_a_message_during_a_turn_waits() -> None:
    command = ReceiveMessage(message_id=MORE.message_id, content="more", start=START)
    given(*OPEN).when(command).then(MORE)


def test_a_message_that_came_already_changes_nothing() -> None:
    again = ReceiveMessage(
        message_id=HELLO.message_id, content="hello", start=START, earlier=(2, HELLO)
    )
    given(*OPEN).when(again).then()


def test_a_message_id_stands_for_one_content() -> None:
    other = ReceiveMessage(
        message_id=HELLO.message_id, content="other", start=START, earlier=(2, HELLO)
    )
    given(*OPEN).when(other).refused(MessageIdReused)


def test_the_queue_of_a_session_is_bounded() -> None:
    waiting = (replace(MORE, message_id=MessageId(f"q{n}")) for n in range(MAX_WAITING))
    command = ReceiveMessage(message_id=MessageId("one too many"), content="x", start=START)
    given(*OPEN, *waiting).when(command).refused(TooManyWaiting)


def test_so_are_its_bytes_until_a_message_is_delivered_or_withdrawn() -> None:
    """Read models keep the text of what waits, and write it anew with each batch of events."""
    content = "ß" * (MAX_WAITING_BYTES // 4)  # half of them
    first, second = (
        replace(MORE, message_id=MessageId(id_), content=content) for id_ in ("q1", "q2")
    )
    fits = ReceiveMessage(message_id=second.message_id, content=content, start=START)
    one_more = ReceiveMessage(message_id=MessageId("q3"), content="x", start=START)
    receipt = replace(MORE, message_id=one_more.message_id, content="x")
    full = (*OPEN, first, second)

    given(*OPEN, first).when(fits).then(second)
    given(*full).when(one_more).refused(TooManyWaiting)
    given(*full, MessageWithdrawn(message_seq=5)).when(one_more).then(receipt)
    given(*full, MessageDelivered(message_seq=5)).when(one_more).then(receipt)


def test_names_pins_and_profiles_change_only_when_they_differ() -> None:
    given(CREATED).when(RenameSession(name="trip")).then(SessionRenamed(name="trip", by="user"))
    named = SessionRenamed(name="trip", by="user")
    given(CREATED, named).when(RenameSession(name="trip")).then()
    given(CREATED, named).when(RenameSession(name="other", by="auto")).then()
    given(CREATED).when(PinSession(pinned=True)).then(SessionPinned(pinned=True))
    given(CREATED).when(PinSession(pinned=False)).then()
    switched = ProfileSwitched(from_profile="assistant", to_profile="developer", by="user")
    given(CREATED).when(SwitchProfile(to_profile="developer")).then(switched)
    given(CREATED).when(SwitchProfile(to_profile="assistant")).then()


def test_a_name_that_a_person_gave_meanwhile_outlasts_the_answer_to_the_naming_call() -> None:
    naming = replace(CALLED, purpose="naming", node=NODE)
    answer = replied(content="A greeting")
    named = SessionRenamed(name="A greeting", by="auto")
    conclude = RecordAside(events=(answer, named))
    past = (*OPEN, CALLED, answer, COMPLETED, naming)

    given(*past).when(conclude).then(answer, named)
    own = SessionRenamed(name="trip", by="user")
    after = given(*past, own).when(conclude).then(answer)
    assert (after.name, after.named_by_user) == ("trip", True)


def test_compressions_are_undone_one_by_one_from_the_latest_on() -> None:
    first, second = (compressed(kept_from_seq=n) for n in (3, 4))
    past = (CREATED, first, second)
    undo_first, undo_second = (CompressionUndone(compression_seq=n) for n in (2, 3))

    given(*past).when(RecordAside(events=(undo_second,))).then(undo_second)
    given(*past).when(RecordAside(events=(undo_first,))).refused(RuleBroken)
    given(*past, undo_second).when(RecordAside(events=(undo_first,))).then(undo_first)
    given(*past, undo_second).when(RecordAside(events=(undo_second,))).refused(NotFound)


def test_a_stop_without_a_turn_is_nothing_and_a_second_stop_too() -> None:
    given(CREATED).when(RequestStop(by="user")).then()
    given(*OPEN).when(RequestStop(by="user")).then(StopRequested(by="user"))
    given(*OPEN, StopRequested(by="user")).when(RequestStop(by="user")).then()


def test_a_stop_withdraws_the_oldest_message_that_waits_for_its_turn() -> None:
    given(CREATED, HELLO, MORE).when(RequestStop(by="user")).then(
        StopRequested(by="user"), MessageWithdrawn(message_seq=2)
    )


def test_a_stop_right_behind_the_end_of_a_turn_withdraws_no_message_that_was_queued() -> None:
    told = ModelWaiting(place=3, reason="turns")
    past = (*OPEN, MORE, COMPLETED)

    given(*past).when(RequestStop(by="user")).then()
    given(*past, told).when(RequestStop(by="user")).then(
        StopRequested(by="user"), MessageWithdrawn(message_seq=5)
    )


def test_a_stop_of_one_turn_stops_no_other_and_withdraws_nothing() -> None:
    of_one = RequestStop(by="client", turn_id=TURN)
    of_another = RequestStop(by="client", turn_id=TURN_2)

    given(*OPEN).when(of_one).then(StopRequested(by="client"))
    given(*OPEN).when(of_another).then()
    given(CREATED, HELLO, MORE).when(of_one).then()


def test_a_place_far_behind_is_told_again_once_it_has_halved() -> None:
    told: list[int] = []

    for place in range(100, 0, -1):
        if is_news(place, told=told[-1] if told else None):
            told.append(place)

    assert told == [100, 50, 25, 12, 6, 3, 2, 1]


def test_the_place_is_told_to_a_message_that_waits_and_to_no_other() -> None:
    told = ModelWaiting(place=3, reason="turns")

    given(CREATED, HELLO).when(TellPlace(place=3)).then(told)
    given(CREATED, HELLO, told).when(TellPlace(place=3)).then()
    given(CREATED, HELLO, MORE, told, MessageWithdrawn(message_seq=2)).when(
        TellPlace(place=3)
    ).then(told)
    given(CREATED).when(TellPlace(place=3)).then()
    given(*OPEN).when(TellPlace(place=3)).then()


def test_deleting_a_session_answers_everything_that_is_open() -> None:
    after = (
        given(*OPEN, MORE, CALLED, replied(LIST, READ), started(LIST))
        .when(DeleteSession())
        .then(
            ToolFinished(
                call_id=LIST.id,
                name=LIST.name,
                outcome="unknown",
                output="Not known how this ended: the session was deleted.",
            ),
            ToolFinished(
                call_id=READ.id,
                name=READ.name,
                outcome="skipped",
                output="Not run: the session was deleted.",
            ),
            TurnStopped(by="delete"),
            MessageWithdrawn(message_seq=5),
            SessionDeleted(),
        )
    )
    assert not after.exists
    assert not after.unfinished


# --- turns --------------------------------------------------------------------------------------


def test_one_turn_at_a_time() -> None:
    given(*OPEN, MORE).when(StartTurn(start=START)).refused(TurnUnderway)


def test_a_turn_needs_a_message() -> None:
    given(CREATED).when(StartTurn(start=START)).refused(NothingToDeliver)


def test_each_queued_message_gets_a_turn_of_its_own() -> None:
    ended = TurnCompleted(iterations=0, limit_reached=False, usage=Usage())
    later = replace(MORE, message_id=MessageId("m4"))
    after = (
        given(*OPEN, MORE, later, ended)
        .when(StartTurn(start=TurnStart(turn_id=TURN_2, node=NODE)))
        .then(STARTED, MessageDelivered(message_seq=5))
    )
    assert after.turn is not None
    assert after.turn.id == TURN_2
    assert [w.seq for w in after.waiting] == [6]


def test_a_steered_message_is_delivered_before_the_next_model_call() -> None:
    past = (*OPEN, CALLED, replied(LIST), started(LIST), STEER, finished(LIST))
    assert given(*past).next() == Deliver()
    given(*past).when(DeliverMessages(runner=RUNNER)).then(MessageDelivered(message_seq=8))


def test_a_queued_message_does_not_disturb_the_open_turn() -> None:
    assert given(*OPEN, MORE).next() == AskModel(iteration=1, last=False, attempts=())


def test_a_steered_message_after_the_last_reply_waits_for_its_own_turn() -> None:
    past = (*OPEN, CALLED, STEER, replied(content="done"))
    assert given(*past).next() == Finish(ending=Completed(limit_reached=False))


def test_an_idle_session_waits_and_a_message_without_a_turn_opens_one() -> None:
    assert given(CREATED).next() == Wait()
    assert given(CREATED, HELLO).next() == OpenTurn()


def test_tool_calls_of_a_reply_run_one_after_another() -> None:
    past = (*OPEN, CALLED, replied(LIST, READ))
    assert given(*past).next() == RunTools(runs=(ToolRun(call=LIST, started=False),))
    past = (*past, started(LIST), finished(LIST))
    assert given(*past).next() == RunTools(runs=(ToolRun(call=READ, started=False),))
    past = (*past, started(READ), finished(READ))
    assert given(*past).next() == AskModel(iteration=2, last=False, attempts=())


def test_a_call_refused_for_length_is_tried_once_more_whatever_came_of_the_compression() -> None:
    refused = replace(failed(will_retry=True), kind="overflow")
    summary = replace(CALLED, purpose="compression")
    no_use = (summary, replied(content="- all of it"), CompressionFailed(error="not shorter"))

    assert given(*OPEN, CALLED, refused).next(full=True) == Compress(trigger="pre_turn")
    again = given(*OPEN, CALLED, refused, *no_use).next(full=True)
    assert isinstance(again, AskModel)
    assert [attempt.kind for attempt in again.attempts] == ["overflow"]
    last = replace(refused, will_retry=False)
    ended = given(*OPEN, CALLED, refused, *no_use, CALLED, last).next(full=True)
    assert isinstance(ended, Finish)
    assert isinstance(ended.ending, Failed)
    assert ended.ending.kind == "context_overflow"


def test_after_the_limit_there_is_one_last_call_without_tools() -> None:
    past = (*OPEN, CALLED, replied(LIST), started(LIST), finished(LIST))
    assert given(*past).next(max_iterations=1) == AskModel(iteration=2, last=True, attempts=())
    past = (*past, CALLED, replied(content="so far"))
    assert given(*past).next(max_iterations=1) == Finish(ending=Completed(limit_reached=True))


def test_the_last_call_is_the_last_even_if_it_asks_for_tools() -> None:
    past = (*OPEN, CALLED, replied(LIST), started(LIST), finished(LIST), CALLED, replied(READ))
    assert given(*past).next(max_iterations=1) == Finish(ending=Completed(limit_reached=True))
    ending = EndTurn(runner=RUNNER, ending=Completed(limit_reached=True), partial_replies={})
    given(*past).when(ending).then(
        ToolFinished(
            call_id=READ.id,
            name=READ.name,
            outcome="skipped",
            output="Not run: the limit of iterations was reached.",
        ),
        TurnCompleted(
            iterations=2,
            limit_reached=True,
            usage=Usage(prompt_tokens=20, completion_tokens=10),
        ),
    )


def test_a_limit_that_comes_down_beside_the_turn_is_reached_after_one_last_call_too() -> None:
    round_ = (WITH_TOOLS, replied(LIST), started(LIST), finished(LIST))
    past = (*OPEN, *round_ * 4, WITH_TOOLS, replied(LIST, READ), started(LIST), finished(LIST))
    assert given(*past).next(max_iterations=2) == RunTools(runs=(ToolRun(call=READ),))

    past = (*past, started(READ), finished(READ))
    last = AskModel(iteration=6, last=True, attempts=())
    assert given(*past).next(max_iterations=2) == last
    interrupted = replace(failed(will_retry=True), kind="interrupted")
    assert given(*past, CALLED, interrupted).next(max_iterations=2) == last
    ended = given(*past, CALLED, replied(content="so far")).next(max_iterations=2)
    assert ended == Finish(ending=Completed(limit_reached=True))


def test_an_answer_is_complete_where_the_limit_came_down_behind_it() -> None:
    past = (*OPEN, *(WITH_TOOLS, replied(LIST), started(LIST), finished(LIST)) * 2)
    past = (*past, WITH_TOOLS, replied(content="done"))
    assert given(*past).next(max_iterations=1) == Finish(ending=Completed(limit_reached=False))


def test_a_failed_call_is_tried_again_or_fails_the_turn() -> None:
    again = given(*OPEN, CALLED, failed(will_retry=True)).next()
    attempt = Attempt(backend="b", model="m", kind="connection", error="refused", will_retry=True)
    assert again == AskModel(iteration=1, last=False, attempts=(attempt,))
    given_up = given(*OPEN, CALLED, failed(will_retry=False)).next()
    assert given_up == Finish(ending=Failed(kind="connection", error="refused"))


def test_a_stop_comes_before_everything_else() -> None:
    past = (*OPEN, CALLED, replied(LIST), StopRequested(by="user"))
    assert given(*past).next() == Finish(ending=Stopped(by="user"))


def test_a_stopped_call_keeps_what_it_had_said() -> None:
    given(*OPEN, CALLED, StopRequested(by="user")).when(
        EndTurn(
            runner=RUNNER,
            ending=Stopped(by="user"),
            partial_replies={CALL: PartialReply(text="Once up", said=7)},
        )
    ).then(
        ModelCallFailed(
            call_id=CALL,
            kind="stopped",
            error="the turn was stopped",
            partial_text="Once up",
            will_retry=False,
        ),
        TurnStopped(by="user"),
    )


def test_a_turn_is_not_complete_while_a_call_is_open() -> None:
    complete = EndTurn(runner=RUNNER, ending=Completed(limit_reached=False), partial_replies={})
    given(*OPEN, CALLED).when(complete).refused(RuleBroken)
    given(*OPEN, CALLED, replied(LIST)).when(complete).refused(RuleBroken)
    given(*OPEN, CALLED, replied(content="done")).when(complete).then(
        TurnCompleted(
            iterations=1,
            limit_reached=False,
            usage=Usage(prompt_tokens=10, completion_tokens=5),
        )
    )


def test_a_broken_turn_answers_its_open_calls() -> None:
    given(*OPEN, CALLED).when(
        EndTurn(runner=RUNNER, ending=Failed(kind="internal", error="bug"), partial_replies={})
    ).then(
        ModelCallFailed(
            call_id=CALL,
            kind="interrupted",
            error="the turn failed",
            partial_text="",
            will_retry=False,
        ),
        TurnFailed(kind="internal", error="bug"),
    )


# --- outcomes -----------------------------------------------------------------------------------


def test_an_answer_needs_its_open_call() -> None:
    for event in (replied(), failed(will_retry=True), TextDelta(call_id=CALL, text="x")):
        given(*OPEN).when(RecordOutcome(runner=RUNNER, events=(event,))).refused(RuleBroken)
        given(*OPEN, CALLED).when(RecordOutcome(runner=RUNNER, events=(event,))).then(event)


def test_a_call_is_answered_once() -> None:
    for event in (replied(), failed(will_retry=True)):
        given(*OPEN, CALLED, event).when(RecordOutcome(runner=RUNNER, events=(event,))).refused(
            RuleBroken
        )


def test_a_tool_call_is_started_once_and_finished_once() -> None:
    past = (*OPEN, CALLED, replied(LIST))
    start = RecordOutcome(runner=RUNNER, events=(started(LIST),))
    finish = RecordOutcome(runner=RUNNER, events=(finished(LIST),))
    given(*past).when(start).then(started(LIST))
    given(*past, started(LIST)).when(start).refused(RuleBroken)
    given(*past, started(LIST)).when(finish).then(finished(LIST))
    given(*past, started(LIST), finished(LIST)).when(finish).refused(RuleBroken)


def test_a_model_call_waits_until_the_one_before_it_is_answered() -> None:
    given(*OPEN, CALLED).when(RecordOutcome(runner=RUNNER, events=(CALLED,))).refused(RuleBroken)


# --- take-over ----------------------------------------------------------------------------------


def resume(*, handed_over: bool = False, repeatable: frozenset[CallId] = frozenset()) -> ResumeTurn:
    return ResumeTurn(
        node=OTHER_NODE,
        handed_over=handed_over,
        partial_replies={CALL: PartialReply(text="Once up", said=7)},
        repeatable=repeatable,
    )


RESUMED = TurnResumed(node=OTHER_NODE, attempt=2, reason="node_died")


def test_a_call_of_a_dead_process_is_interrupted_and_tried_again() -> None:
    after = (
        given(*OPEN, CALLED)
        .when(resume())
        .then(
            RESUMED,
            ModelCallFailed(
                call_id=CALL,
                kind="interrupted",
                error="the process that made the call ended",
                partial_text="Once up",
                will_retry=True,
            ),
        )
    )
    assert after.turn is not None
    assert after.turn.node == OTHER_NODE


def test_a_tool_of_a_dead_process_is_not_run_again_unless_that_is_safe() -> None:
    past = (*OPEN, CALLED, replied(LIST, READ), started(LIST))
    unknown = ToolFinished(
        call_id=LIST.id,
        name=LIST.name,
        outcome="unknown",
        output="The process ended while this tool was running. Whether it took effect is "
        "unknown: find out before you try it again.",
    )
    given(*past).when(resume()).then(RESUMED, unknown)
    given(*past).when(resume(repeatable=frozenset({LIST.id}))).then(RESUMED)
    assert given(*past, RESUMED).next() == RunTools(runs=(ToolRun(call=LIST, started=True),))


def test_the_process_that_lost_a_turn_is_fenced() -> None:
    outcome = RecordOutcome(runner=RUNNER, events=(TextDelta(call_id=CALL, text="x"),))
    given(*OPEN, CALLED, RESUMED).when(outcome).refused(Fenced)
    later = replace(outcome, runner=Runner(turn_id=TURN, attempt=2))
    given(*OPEN, CALLED, RESUMED).when(later).then(TextDelta(call_id=CALL, text="x"))
    stopped = TurnStopped(by="user")
    given(*OPEN, stopped).when(outcome).refused(Fenced)


def test_the_process_that_runs_a_turn_is_fenced_where_its_session_was_deleted() -> None:
    deleted = (*OPEN, CALLED, TurnStopped(by="delete"), SessionDeleted())
    for command in (
        DeliverMessages(runner=RUNNER),
        RecordOutcome(runner=RUNNER, events=(TextDelta(call_id=CALL, text="x"),)),
        EndSubagent(
            runner=RUNNER,
            subagent_id=SubagentId("subagent_1"),
            result="",
            completed_normally=True,
            partial_replies={},
        ),
        EndTurn(runner=RUNNER, ending=Completed(limit_reached=False), partial_replies={}),
    ):
        given(*deleted).when(command).refused(Fenced)


def test_a_turn_that_kills_three_processes_is_given_up() -> None:
    twice = (RESUMED, TurnResumed(node=NODE, attempt=3, reason="node_died"))
    given(*OPEN, *twice, CALLED).when(resume()).then(
        ModelCallFailed(
            call_id=CALL,
            kind="interrupted",
            error="the process died",
            partial_text="Once up",
            will_retry=False,
        ),
        TurnFailed(kind="crash_loop", error="3 processes died over this turn"),
    )


def test_a_turn_that_was_handed_over_does_not_count_as_a_death() -> None:
    over = TurnResumed(node=OTHER_NODE, attempt=2, reason="handed_over")
    back = TurnResumed(node=NODE, attempt=3, reason="handed_over")
    given(*OPEN, over, back).when(resume()).then(
        TurnResumed(node=OTHER_NODE, attempt=4, reason="node_died")
    )


def test_only_an_open_turn_of_another_node_can_be_taken_over() -> None:
    given(CREATED).when(resume()).refused(NoTurn)
    given(*OPEN, RESUMED).when(resume()).refused(TurnUnderway)
