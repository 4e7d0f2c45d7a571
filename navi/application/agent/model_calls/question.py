"""What a model is asked, before a server is chosen for it, and what can come of one call."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from navi.application.agent.model_calls.model_queue import KeptSlot
from navi.domain.agent.profile import ServedProfile
from navi.domain.context.prompt import PromptMessage, ToolSchema
from navi.domain.session.commands import PartialReply
from navi.domain.session.turn import Attempt
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import ModelCalled, ModelCallFailed, ModelReplied, Purpose
from navi.domain.vocabulary.ids import CallId


class AskedAnew(Struct, frozen=True, kw_only=True):
    """How a question is asked anew that is another one by the time that its call can be sent.

    Attributes:
        is_due: whether it is another one by now.
        kept: keeps the slot for the other one, so that nobody who says something loses the place.
    """

    is_due: Callable[[], Awaitable[bool]]
    kept: KeptSlot


class Question(Struct, frozen=True, kw_only=True):
    """A model request before a server is chosen: messages, tools, purpose.

    Attributes:
        iteration: the actor's, counted from 1; 0 for calls that are no iteration.
        attempts: what failed so far for this very question.
        models: names in order of preference; empty for the default model.
        messages: the system message, where there is one, and the context.
        made_by: the profile that the question is made by.
        tail: what stands behind the context, for this call only; kept by content.
        think: whether a model that can think should.
        context_seq: up to where the log was folded into ``messages``.
        max_tokens: the most that the answer may have; None for all the room there is.
        enough: whether a text has what the call is made for; the rest is not waited for.
        results: the keys of tool results in the context, by their calls: they may be shortened.
        context_messages: how many of the context's rows these are, a conversation that was taken in
            counting as one; None for all of them.
        anew: how it is asked anew; None where it stays what it is, however long it waits.
    """

    purpose: Purpose
    iteration: int
    attempts: tuple[Attempt, ...]
    models: tuple[str, ...]
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSchema, ...]
    temperature: float | None
    num_ctx: int | None
    think: bool
    context_seq: int
    made_by: ServedProfile
    tail: tuple[PromptMessage, ...] = ()
    max_tokens: int | None = None
    enough: Callable[[str], bool] | None = None
    results: Mapping[CallId, int] = {}
    context_messages: int | None = None
    anew: AskedAnew | None = None


class NoModel(ModelFailure):
    """No model server or no model is configured."""


class Interrupted(Struct, frozen=True, kw_only=True):
    """The call was given up because the turn is to halt; ``partial`` is what had come of it."""

    called: ModelCalled
    partial: PartialReply


class Replied(Struct, frozen=True):
    """The call succeeded; its reply is in the log."""

    reply: ModelReplied


class CallFailed(Struct, frozen=True):
    """The call failed; its failure is in the log, ``attempt`` is for the next try."""

    failure: ModelCallFailed
    attempt: Attempt


class NotSent(Struct, frozen=True):
    """There is no call: while it waited it was to halt, or became another question."""


CallOutcome = Replied | CallFailed | Interrupted | NotSent
