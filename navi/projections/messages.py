"""The projection ``messages``: the display history; never compressed."""

from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.reading.projection import Change, Put
from navi.domain.vocabulary.events import (
    ContextCompressed,
    ConversationTakenIn,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCallFailed,
    ModelReplied,
    PlanReady,
    SubagentStarted,
    ToolFinished,
    UserMessageReceived,
)
from navi.projections.json_form import JsonForm
from navi.projections.message_rows import (
    OpenMessages,
    agent_message,
    evolve_open_messages,
    take_waiting,
    taken_in,
    user_message,
)


class Messages(JsonForm[OpenMessages]):
    """Rows: messages by the seq of the event that brought them about."""

    name = "messages"
    version = 3

    def __init__(self) -> None:
        super().__init__(OpenMessages, Message)

    def initial(self) -> OpenMessages:
        """Nothing was said yet."""
        return OpenMessages()

    def fold(
        self, state: OpenMessages, envelope: Envelope
    ) -> tuple[OpenMessages, tuple[Change, ...]]:
        """The buffer after an event."""
        after = evolve_open_messages(state, envelope)
        match envelope.event:
            case ConversationTakenIn() as taken:
                if not taken.messages:
                    return after, ()
                return after, (Put(key=envelope.seq, row=taken_in(envelope, taken)),)
            case UserMessageReceived() as event:
                return after, (Put(key=envelope.seq, row=user_message(envelope, event)),)
            case MessageDelivered(message_seq=seq):
                after, message = take_waiting(after, seq)
                if message is None:
                    return after, ()
                return after, (Put(key=seq, row=replace(message, turn_id=envelope.turn_id)),)
            case MessageWithdrawn(message_seq=seq):
                after, message = take_waiting(after, seq)
                if message is None:
                    return after, ()
                return after, (Put(key=seq, row=replace(message, is_withdrawn=True)),)
            case ModelReplied(call_id=call_id) as event if state.calls.get(call_id) == "turn":
                return after, (Put(key=envelope.seq, row=agent_message(envelope, event)),)
            case ModelCallFailed(call_id=call_id) as event if (
                event.partial_text and state.calls.get(call_id) == "turn"
            ):
                return after, (Put(key=envelope.seq, row=agent_message(envelope, event)),)
            case ToolFinished() | PlanReady() as event:
                return after, (Put(key=envelope.seq, row=agent_message(envelope, event)),)
            case SubagentStarted(task=task) if envelope.subagent_id is not None:
                return after, (Put(key=envelope.seq, row=_task(envelope, task)),)
            case ContextCompressed(summary=summary):
                return after, (Put(key=envelope.seq, row=_marker(envelope, summary)),)
            case _:
                return after, ()


def _task(envelope: Envelope, task: str) -> Message:
    assert envelope.subagent_id is not None  # noqa: S101 - the caller's pattern says so
    return Message(
        seq=envelope.seq,
        role="user",
        content=task,
        at=envelope.at,
        turn_id=envelope.turn_id,
        is_subagent=True,
        subagent_id=envelope.subagent_id,
    )


def _marker(envelope: Envelope, summary: str) -> Message:
    return Message(
        seq=envelope.seq,
        role="assistant",
        content=summary,
        at=envelope.at,
        turn_id=envelope.turn_id,
        is_compression=True,
        is_subagent=envelope.subagent_id is not None,
        subagent_id=envelope.subagent_id if envelope.subagent_id is not None else UNSET,
    )
