"""What programs outside are told at the end of an answer."""

from datetime import UTC, datetime

import pytest

from navi.application.doors.answer_pieces import Ended, FollowedAnswer
from navi.domain.vocabulary.events import (
    AgentEvent,
    Envelope,
    MessageDelivered,
    ModelReplied,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, EventId
from tests.application.sample import STARTED, session, uuid

AT = datetime(2026, 11, 20, tzinfo=UTC)


def replied(usage: Usage) -> ModelReplied:
    return ModelReplied(
        call_id=CallId(uuid(1)),
        content="",
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=usage,
        duration_ms=1,
        first_chunk_ms=None,
    )


def seen(*events: AgentEvent) -> list[object]:
    answer = FollowedAnswer(message_seq=1)
    envelopes = [
        Envelope(
            session_id=session(1),
            seq=seq,
            id=EventId(uuid(seq)),
            at=AT,
            turn_id=None,
            subagent_id=None,
            event=event,
        )
        for seq, event in enumerate(events, start=2)
    ]
    return [piece for envelope in envelopes for piece in answer.see(envelope)]


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        ([Usage(), Usage()], Usage()),
        (
            [Usage(), Usage(prompt_tokens=3, completion_tokens=1, cached_tokens=2)],
            Usage(prompt_tokens=3, completion_tokens=1, cached_tokens=2),
        ),
        (
            [Usage(prompt_tokens=3, cached_tokens=2), Usage(prompt_tokens=4, completion_tokens=5)],
            Usage(prompt_tokens=7, completion_tokens=5, cached_tokens=2),
        ),
    ],
)
def test_a_stopped_answer_tells_what_its_calls_took_as_far_as_that_is_known(
    counted: list[Usage], told: Usage
) -> None:
    delivered = MessageDelivered(message_seq=1)

    pieces = seen(STARTED, delivered, *map(replied, counted), TurnStopped(by="user"))

    assert pieces == [Ended(how="stopped", usage=told)]
