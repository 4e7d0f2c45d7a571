"""Make a model call again until it is answered, or no try is left."""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from navi.application.agent.model_calls.ask_model import AskModelOnce, nothing_more
from navi.application.agent.model_calls.model_call import CallEvent, SessionRecorder
from navi.application.agent.model_calls.model_queue import GaveWay
from navi.application.agent.model_calls.question import (
    CallFailed,
    Interrupted,
    NoModel,
    NotSent,
    Question,
    Replied,
)
from navi.domain.session.commands import PartialReply
from navi.domain.spending.call_tokens import estimate
from navi.domain.vocabulary.events import ModelCalled, ModelCallFailed, ModelReplied


async def ask_until_answered(
    ask_model: AskModelOnce,
    record: SessionRecorder,
    question: Question,
    *,
    conclude: Callable[[ModelReplied], tuple[CallEvent, ...]] = nothing_more,
) -> ModelReplied | None:
    """Make a model call, with retries and other servers; None if every try failed.

    For calls whose failure is nobody's end: a name, a summary, a memory. One that is cut off because
    it is to halt is answered here, or with the end of its turn.

    Raises:
        NoModel: there is nothing to ask.
        GaveWay: a follow-up has to be asked anew, when nobody waits.
        OutOfBudget: no call may be made any more.
        Fenced: the turn is another's.
    """
    while True:
        asked = await ask_model(record, question, conclude=conclude)
        match asked:
            case Replied(reply=reply):
                return reply
            case CallFailed(failure=failure, attempt=attempt):
                if not failure.will_retry:
                    return None
                if failure.kind == "preempted":
                    raise GaveWay
                if attempt.not_ready_at is not None and record.follows:
                    raise NoModel(failure.kind, failure.error)  # it is left due
                question = replace(question, attempts=(*question.attempts, attempt))
            case Interrupted(called=called, partial=partial):
                if record.node is not None:
                    await record(_stopped(called, partial))
                return None
            case NotSent():
                return None
            case _:
                assert_never(asked)


def _stopped(called: ModelCalled, partial: PartialReply) -> ModelCallFailed:
    return ModelCallFailed(
        call_id=called.call_id,
        kind="stopped",
        error="the process ends",
        partial_text="",
        will_retry=False,
        usage=partial.usage,
        estimate=estimate(partial.usage, prompt=called.prompt_estimate, said=partial.said),
    )
