"""What of a session a program outside has seen, and where its buffers have what was taken in."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.context.messages import one_by_one
from navi.domain.reading.conversation import beginning, marks_of
from navi.domain.reading.fold import Fold
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalRequested,
    ConversationTakenIn,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    Said,
    SessionCreated,
    ToolCall,
    TurnCompleted,
    TurnStarted,
    TurnStopped,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, SubagentId
from navi.projections.context import Context
from navi.projections.conversation import Conversation, ConversationState, known_to
from navi.projections.messages import Messages
from tests.domain.specification import NODE, SESSION, TURN, envelope
from tests.domain.test_instructions import CALLED

CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)
STARTED = TurnStarted(node=NODE)
COMPLETED = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
START = beginning(LOCAL_OWNER, None)
SUBAGENT = SubagentId("subagent_0123456789ab")
TOOL = ToolCall(id=CallId("call_1"), name="todo", arguments={})


class Of(Struct, frozen=True):
    """An event of a subagent."""

    event: AgentEvent


def fold(*events: AgentEvent | Of) -> Fold[ConversationState]:
    """The projection after events; those in an ``Of`` are a subagent's."""
    folded: Fold[ConversationState] = Fold(Conversation())
    for seq, event in enumerate(events, start=1):
        by = SUBAGENT if isinstance(event, Of) else None
        said = event.event if isinstance(event, Of) else event
        folded.apply(envelope(said, seq=seq, turn_id=TURN, subagent_id=by))
    return folded


def user(content: str) -> Said:
    return Said(role="user", content=content)


def assistant(content: str) -> Said:
    return Said(role="assistant", content=content)


def received(content: str) -> UserMessageReceived:
    return UserMessageReceived(message_id=MessageId("m"), content=content)


def replied(content: str, *calls: ToolCall, finish_reason: str = "stop") -> ModelReplied:
    return ModelReplied(
        call_id=CALLED.call_id,
        content=content,
        thinking="",
        tool_calls=calls,
        finish_reason=finish_reason,
        usage=Usage(),
        duration_ms=1,
        first_chunk_ms=1,
    )


def failed(partial_text: str) -> ModelCallFailed:
    return ModelCallFailed(
        call_id=CALLED.call_id,
        kind="connection",
        error="",
        partial_text=partial_text,
        will_retry=True,
    )


def asked(content: str, seq: int) -> tuple[AgentEvent, ...]:
    return received(content), STARTED, MessageDelivered(message_seq=seq)


def points(folded: Fold[ConversationState]) -> dict[int, str]:
    return {key: row.mark for key, row in folded.rows.visible()}


def test_messages_and_answers_are_the_points_of_a_conversation() -> None:
    folded = fold(CREATED, *asked("Tea?", 2), CALLED, replied("Yes."), COMPLETED)

    _, after_question, after_answer = marks_of(START, (user("Tea?"), assistant("Yes.")))
    assert points(folded) == {4: after_question, 7: after_answer}
    assert (folded.state.mark, folded.state.asked_mark) == (after_answer, after_question)
    assert not folded.state.unsettled


def test_an_answer_is_all_that_the_agent_has_said_and_shown() -> None:
    called: ModelCalled = CALLED
    other = CallId("of a subagent")
    folded = fold(
        *(CREATED, *asked("Tea?", 2)),
        *(called, failed("Well")),
        *(called, replied("Let me see.", TOOL)),
        *(
            Of(replace(called, call_id=other)),
            Of(replace(replied("Psst"), call_id=other)),
        ),
        *(replace(called, purpose="planning"), called, replied("", TOOL)),
        *(called, replied("It is ", finish_reason="length"), called, replied("Assam.")),
        COMPLETED,
    )

    said = "Well\n\nLet me see.\n\nIt is Assam."
    assert folded.state.answer.text == said
    assert folded.state.mark == marks_of(START, (user("Tea?"), assistant(said)))[-1]


def test_what_is_said_into_a_turn_is_no_part_of_it() -> None:
    steered = (received("Green!"), MessageDelivered(message_seq=6))
    folded = fold(CREATED, *asked("Tea?", 2), CALLED, *steered, replied("Yes."), COMPLETED)

    assert folded.state.mark == marks_of(START, (user("Tea?"), assistant("Yes.")))[-1]


def test_an_answer_that_was_stopped_or_has_waited_may_be_known_in_part() -> None:
    waits = ApprovalRequested(call_id=TOOL.id, name="todo", arguments={}, reason="", preview="")
    begun = (CREATED, *asked("Tea?", 2), CALLED)

    assert fold(*begun, failed("We"), TurnStopped(by="client")).state.unsettled
    assert fold(*begun, replied("Let me.", TOOL), waits).state.unsettled
    silent = fold(*begun, failed(""), TurnStopped(by="client"))
    assert silent.state.mark == silent.state.asked_mark


def test_a_message_goes_on_from_what_its_program_has_seen() -> None:
    begun = (CREATED, *asked("Tea?", 2), CALLED)
    seen = marks_of(START, (user("Tea?"), assistant("We")))[-1]
    behind = replace(received("Go on."), behind_sha256=seen)
    both = marks_of(START, (user("Tea?"), assistant("We"), user("Go on."), assistant("Yes.")))
    delivered = (STARTED, MessageDelivered(message_seq=8))

    stopped = fold(
        *(*begun, failed("Well"), TurnStopped(by="client"), behind),
        *(*delivered, CALLED, replied("Yes."), COMPLETED),
    )
    assert stopped.state.mark == both[-1]
    assert points(stopped)[10] == both[-2]
    assert (stopped.state.behind, stopped.state.unsettled) == ({}, False)


def test_of_a_message_that_waits_behind_a_turn_a_program_may_know_that_alone() -> None:
    waits = ApprovalRequested(call_id=TOOL.id, name="todo", arguments={}, reason="", preview="")
    seen, queued = marks_of(START, (user("Tea?"), assistant("Let me."), user("And?")))[-2:]
    begun = (CREATED, *asked("Tea?", 2), CALLED, replied("Let me.", TOOL), waits)
    behind = replace(received("And?"), behind_sha256=seen)

    waiting = fold(*begun, behind)
    assert known_to(SESSION, 9, waiting.state, {}).queued_mark == queued
    withdrawn = fold(*begun, behind, MessageWithdrawn(message_seq=8))
    assert known_to(SESSION, 9, withdrawn.state, {}).queued_mark == ""
    after = fold(*begun, behind, COMPLETED, STARTED, MessageDelivered(message_seq=8))
    assert (after.state.asked_mark, after.state.unsettled) == (queued, True)
    assert known_to(SESSION, 9, after.state, {}).queued_mark == ""


def test_a_fork_goes_on_from_its_origins_words() -> None:
    folded = fold(CREATED, *asked("Tea?", 2), CALLED, replied("Yes."), COMPLETED, CREATED)

    assert folded.state.mark == marks_of(START, (user("Tea?"), assistant("Yes.")))[-1]


def test_a_conversation_that_a_program_names_has_a_beginning_of_its_own() -> None:
    taken = ConversationTakenIn(messages=(user("A"), assistant("B")), conversation_id="c-1")
    folded = fold(CREATED, taken)

    assert points(folded) == {2: marks_of(beginning(LOCAL_OWNER, "c-1"), taken.messages)[-1]}


def test_what_was_taken_in_is_one_row_of_each_buffer_read_one_by_one() -> None:
    taken = ConversationTakenIn(
        messages=(user("A"), assistant("B")), instructions="Be brief.", beside=True
    )
    event: Envelope = envelope(taken, seq=2)
    read: dict[str, list[tuple[str, str, bool]]] = {}
    for projection in (Messages(), Context()):
        folded: Fold[Any] = Fold(projection)
        folded.apply(event)
        assert [key for key, _ in folded.rows.visible()] == [2]
        rows = one_by_one(row for _, row in folded.rows.visible())
        read[projection.name] = [(m.role, m.content, m.is_guidance) for m in rows]

    said = [("user", "A", False), ("assistant", "B", False)]
    told = ("user", "Instructions for this conversation, from here on:\nBe brief.", True)
    assert read == {"messages": said, "context": [told, *said]}
