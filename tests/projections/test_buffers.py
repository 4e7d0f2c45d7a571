"""What stands in ``messages`` and in ``context``, event by event."""

from typing import Any

from msgspec import UNSET

from navi.domain.context.messages import Message
from navi.domain.log.erasure import without_words
from navi.domain.reading.fold import Fold
from navi.domain.reading.projection import Projection
from navi.domain.vocabulary.event_codec import decode_data, encode_data
from navi.domain.vocabulary.events import (
    AgentEvent,
    CompressionUndone,
    ContextCompressed,
    GuidanceGiven,
    ImageShown,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanReady,
    Purpose,
    SubagentStarted,
    TextDelta,
    TodoItem,
    TodoUpdated,
    ToolCall,
    ToolFinished,
    ToolStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId, SubagentId
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.todo import Todo
from tests.domain.specification import AT, TURN, envelope

CALL = CallId("c1")
SUBAGENT = SubagentId("subagent_0123456789ab")
TOOL = ToolCall(id=CallId("call_1"), name="todo", arguments={})


def fold(projection: Projection[Any], *events: AgentEvent) -> Fold[Any]:
    """The projection after events of one turn, a subagent's where the event is in ``Of``."""
    folded: Fold[Any] = Fold(projection)
    for seq, event in enumerate(events, start=1):
        folded.apply(envelope(event, seq=seq, turn_id=TURN))
    return folded


def rows(folded: Fold[Any]) -> list[Message]:
    return [row for _, row in folded.rows.visible()]


def called(purpose: Purpose = "turn") -> ModelCalled:
    return ModelCalled(
        call_id=CALL,
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
    )


def replied(content: str, *calls: ToolCall, tokens: int | None = 7) -> ModelReplied:
    return ModelReplied(
        call_id=CALL,
        content=content,
        thinking="hm",
        tool_calls=calls,
        finish_reason="stop",
        usage=Usage(prompt_tokens=tokens),
        duration_ms=1,
        first_chunk_ms=1,
    )


def said(seq: int, role: Any, content: str, **more: Any) -> Message:
    return Message(seq=seq, role=role, content=content, at=AT, turn_id=TURN, **more)


HELLO = UserMessageReceived(message_id=MessageId("m1"), content="hello")


def test_a_message_stands_in_messages_from_its_receipt_and_in_context_from_its_delivery() -> None:
    waiting = Message(
        seq=1, role="user", content="hello", at=AT, turn_id=None, message_id=MessageId("m1")
    )
    delivered = said(1, "user", "hello", message_id=MessageId("m1"))
    delivery = MessageDelivered(message_seq=1)

    assert rows(fold(Messages(), HELLO)) == [waiting]
    assert rows(fold(Context(), HELLO)) == []
    assert rows(fold(Messages(), HELLO, delivery)) == [delivered]
    assert rows(fold(Context(), HELLO, delivery)) == [delivered]


def test_a_withdrawn_message_stays_in_messages_only() -> None:
    past = (HELLO, MessageWithdrawn(message_seq=1))

    assert [m.is_withdrawn for m in rows(fold(Messages(), *past))] == [True]
    assert rows(fold(Context(), *past)) == []


def test_a_steered_message_does_not_part_a_call_from_its_result_in_the_context() -> None:
    steered = UserMessageReceived(message_id=MessageId("m2"), content="rather", mode="steer")
    result = ToolFinished(call_id=TOOL.id, name="todo", outcome="ok", output="fine")
    past = (called(), replied("", TOOL), steered, result, MessageDelivered(message_seq=3))

    assert [m.role for m in rows(fold(Context(), *past))] == ["assistant", "tool", "user"]
    assert [m.seq for m in rows(fold(Context(), *past))] == [2, 4, 3]
    assert [m.role for m in rows(fold(Messages(), *past))] == ["assistant", "user", "tool"]


def test_a_reply_and_a_result_stand_in_both() -> None:
    started = ToolStarted(call_id=TOOL.id, name="todo", arguments={})
    result = ToolFinished(call_id=TOOL.id, name="todo", outcome="ok", output="fine")
    past = (called(), TextDelta(call_id=CALL, text="I"), replied("I look", TOOL), started, result)
    expected = [
        said(3, "assistant", "I look", call_id=CALL, thinking="hm", tool_calls=(TOOL,)),
        said(5, "tool", "fine", call_id=TOOL.id, name="todo"),
    ]

    assert rows(fold(Messages(), *past)) == expected
    assert rows(fold(Context(), *past)) == expected


def test_only_calls_of_a_turn_speak() -> None:
    for purpose in ("planning", "review", "compression", "naming", "memory"):
        past = (called(purpose), replied("DIRECT"))
        assert rows(fold(Messages(), *past)) == []
        assert rows(fold(Context(), *past)) == []


def test_text_of_a_call_that_was_cut_off_is_seen_by_people_only() -> None:
    cut = ModelCallFailed(
        call_id=CALL, kind="stopped", error="", partial_text="Once up", will_retry=False
    )
    past = (called(), cut)

    assert rows(fold(Messages(), *past)) == [
        said(2, "assistant", "Once up", call_id=CALL, is_partial=True)
    ]
    assert rows(fold(Context(), *past)) == []


def test_guidance_is_seen_by_the_model_only() -> None:
    past = (GuidanceGiven(kind="goal_anchor", content="remember"),)

    assert rows(fold(Messages(), *past)) == []
    assert rows(fold(Context(), *past)) == [said(1, "user", "remember", is_guidance=True)]


def test_a_plan_stands_in_both_as_the_assistants_words() -> None:
    past = (PlanReady(plan="1. look (SELF)"),)
    expected = [said(1, "assistant", "1. look (SELF)", is_plan=True)]

    assert rows(fold(Messages(), *past)) == expected
    assert rows(fold(Context(), *past)) == expected


def test_a_subagent_is_seen_by_people_and_not_in_the_sessions_context() -> None:
    started = SubagentStarted(call_id=CallId("call_9"), profile_id="researcher", task="find it")
    event = envelope(started, seq=1, turn_id=TURN, subagent_id=SUBAGENT)
    messages: Fold[Any] = Fold(Messages())
    context: Fold[Any] = Fold(Context())
    messages.apply(event)
    context.apply(event)

    assert rows(messages) == [said(1, "user", "find it", is_subagent=True, subagent_id=SUBAGENT)]
    assert rows(context) == []
    own: Fold[Any] = Fold(Context(SUBAGENT))
    own.apply(event)
    assert rows(own) == rows(messages)


def test_a_compression_replaces_the_old_and_undoing_it_gives_back_exactly_what_was_there() -> None:
    spoken: list[AgentEvent] = []
    for number in (1, 2, 3):
        message = UserMessageReceived(message_id=MessageId(f"m{number}"), content=f"{number}")
        spoken += [message, MessageDelivered(message_seq=len(spoken) + 1)]
    compressed = ContextCompressed(
        summary="- one", kept_from_seq=4, tokens_before=90, tokens_after=30, trigger="manual"
    )
    before = rows(fold(Context(), *spoken))

    folded = fold(Context(), *spoken, compressed)
    assert [(m.content, m.is_summary) for m in rows(folded)] == [
        ("- one", True),
        ("2", False),
        ("3", False),
    ]
    assert folded.state.token_count == 30
    undone = fold(Context(), *spoken, compressed, CompressionUndone(compression_seq=7))
    assert rows(undone) == before
    marker = rows(fold(Messages(), *spoken, compressed))[-1]
    assert (marker.role, marker.content, marker.is_compression) == ("assistant", "- one", True)


def test_a_second_compression_folds_the_first_summary_in() -> None:
    first = ContextCompressed(
        summary="- one", kept_from_seq=4, tokens_before=90, tokens_after=30, trigger="manual"
    )
    second = ContextCompressed(
        summary="- all", kept_from_seq=9, tokens_before=90, tokens_after=30, trigger="manual"
    )
    spoken: list[AgentEvent] = []
    for number in (1, 2, 3):
        message = UserMessageReceived(message_id=MessageId(f"m{number}"), content=f"{number}")
        spoken += [message, MessageDelivered(message_seq=len(spoken) + 1)]

    assert [m.content for m in rows(fold(Context(), *spoken, first, second))] == ["- all"]


def test_the_token_count_is_the_last_one_the_server_gave() -> None:
    assert fold(Context(), called(), replied("a", tokens=12)).state.token_count == 12
    silent = (called(), replied("a", tokens=12), called(), replied("b", tokens=None))
    assert fold(Context(), *silent).state.token_count == 12


def test_the_todo_list_is_the_last_one_that_was_set() -> None:
    one, two = TodoItem(id="1", text="look"), TodoItem(id="1", text="look", status="done")

    folded = fold(Todo(), TodoUpdated(items=(one,)), TodoUpdated(items=(two,)))

    assert folded.state.items == (two,)
    assert one.validation is None
    assert said(1, "user", "x").thinking is UNSET


def test_a_picture_stands_in_the_context_until_it_is_erased() -> None:
    shown = ImageShown(
        call_id="m1",
        path="uploads/a.png",
        sha256="1f",
        media_type="image/png",
        width=3,
        height=4,
        base64_sha256="2f",
    )
    erased = decode_data(shown.TYPE, 1, without_words(shown.TYPE, encode_data(shown)))
    assert isinstance(erased, ImageShown)

    [before], [after] = rows(fold(Context(), shown)), rows(fold(Context(), erased))

    assert (before.content, before.picture and before.picture.base64_sha256) == (
        "uploads/a.png:",
        "2f",
    )
    assert (after.content, after.picture) == ("[erased]:", UNSET)
    assert rows(fold(Messages(), shown)) == []
