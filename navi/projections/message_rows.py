"""Turn events into message rows, for the projections ``messages`` and ``context``."""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.vocabulary.events import (
    ConversationTakenIn,
    Envelope,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanReady,
    Purpose,
    ToolFinished,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId


class OpenMessages(Struct, frozen=True, kw_only=True):
    """Messages and model calls that later events refer to: waiting and unanswered ones.

    Attributes:
        waiting: by the seq of the receipt.
    """

    waiting: dict[int, Message] = {}
    calls: dict[CallId, Purpose] = {}


def evolve_open_messages(speech: OpenMessages, envelope: Envelope) -> OpenMessages:
    """Fold an event into the open messages; the caller takes out deliveries and withdrawals."""
    match envelope.event:
        case ToolFinished():  # most of what happens: not asked of each class below
            return speech
        case UserMessageReceived():
            message = user_message(envelope, envelope.event)
            return replace(speech, waiting={**speech.waiting, envelope.seq: message})
        case ModelCalled(call_id=call_id, purpose=purpose):
            return replace(speech, calls={**speech.calls, call_id: purpose})
        case ModelReplied(call_id=call_id) | ModelCallFailed(call_id=call_id):
            calls = {key: value for key, value in speech.calls.items() if key != call_id}
            return replace(speech, calls=calls)
        case _:
            return speech


def take_waiting(speech: OpenMessages, seq: int) -> tuple[OpenMessages, Message | None]:
    """Take a waiting message out of the open messages."""
    rest = {key: value for key, value in speech.waiting.items() if key != seq}
    return replace(speech, waiting=rest), speech.waiting.get(seq)


def user_message(envelope: Envelope, event: UserMessageReceived) -> Message:
    """The message of a receipt; it has no turn until it is delivered."""
    return Message(
        seq=envelope.seq,
        role="user",
        content=event.content,
        at=envelope.at,
        turn_id=None,
        message_id=event.message_id,
        files=event.files or UNSET,
    )


def taken_in(envelope: Envelope, taken: ConversationTakenIn) -> Message:
    """The one row of a conversation that was taken in."""
    return Message(
        seq=envelope.seq,
        role="user",
        content="",
        at=envelope.at,
        turn_id=None,
        taken_in=taken.messages,
    )


def agent_message(
    envelope: Envelope, event: ModelReplied | ToolFinished | PlanReady | ModelCallFailed
) -> Message:
    """The message of a reply, a tool's result, a plan, or the text of a call that was cut off."""
    subagent_id = envelope.subagent_id
    common = Message(
        seq=envelope.seq,
        role="assistant",
        content="",
        at=envelope.at,
        turn_id=envelope.turn_id,
        is_subagent=subagent_id is not None,
        subagent_id=subagent_id if subagent_id is not None else UNSET,
    )
    match event:
        case ModelReplied():
            return replace(
                common,
                content=event.content,
                call_id=event.call_id,
                tool_calls=event.tool_calls or UNSET,
                thinking=event.thinking or UNSET,
            )
        case ToolFinished():
            return replace(
                common, role="tool", content=event.output, call_id=event.call_id, name=event.name
            )
        case PlanReady():
            return replace(common, content=event.plan, is_plan=True)
        case ModelCallFailed():
            return replace(
                common,
                content=event.answer or event.partial_text,
                call_id=event.call_id,
                is_partial=True,
            )
