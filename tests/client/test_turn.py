"""Which events are of the turn of a message, and how it ended."""

from typing import Any, cast

from navi.client import Answer, Event
from navi.client.turn import FollowedTurn

MESSAGE_SEQ = 4
USAGE = {"prompt_tokens": None, "completion_tokens": None}
REPLY: dict[str, Any] = {
    "call_id": "c",
    "content": "what was asked before",
    "tool_calls": [],
    "finish_reason": "stop",
    "usage": USAGE,
}


def event(seq: int, type_: str, turn_id: str | None = None, /, **data: Any) -> Event:
    """What is read of an event."""
    return cast(
        Event,
        {"seq": seq, "type": type_, "turn_id": turn_id, "subagent_id": None, "data": data},
    )


def test_a_message_that_was_withdrawn_has_no_answer_of_the_turn_before() -> None:
    turn = FollowedTurn(MESSAGE_SEQ)
    before = (
        event(5, "model_called", "a", call_id="c", purpose="turn"),
        event(6, "model_replied", "a", **REPLY),
        event(7, "turn_completed", "a", usage=USAGE),
    )
    withdrawn = event(8, "message_withdrawn", message_seq=MESSAGE_SEQ)

    shown = [each for one in (*before, withdrawn) for each in turn.see(one)]

    assert shown == [withdrawn]
    assert turn.answer == Answer(outcome="stopped", content="", turn_id=None, seq=8)
