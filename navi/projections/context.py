"""The buffer ``context``: what the model sees after the system message; compressible.

Rows are keyed by the seq of the event that brought them in: a user's message stands where it was
delivered, though it carries the seq of its receipt. So the buffer only grows at its end, and no tool
call is parted from its result by a message that came in between.
"""

from msgspec import Struct
from msgspec.structs import replace

from navi.domain.events import (
    CompressionUndone,
    ContextCompressed,
    Envelope,
    GuidanceGiven,
    MessageDelivered,
    MessageWithdrawn,
    ModelReplied,
    PlanReady,
    ToolFinished,
)
from navi.domain.messages import Message
from navi.domain.projection import Change, Hide, Put, Show
from navi.projections.json_form import JsonForm
from navi.projections.spoken import OpenSpeech, evolve_speech, said_by_agent, take_waiting


class ContextState(Struct, frozen=True, kw_only=True):
    """What is open, and the context's tokens as the model server last counted them."""

    speech: OpenSpeech = OpenSpeech()
    token_count: int | None = None


class Context(JsonForm[ContextState]):
    """Rows: messages by the seq of the event that brought them into the context."""

    name = "context"
    version = 1

    def __init__(self) -> None:
        super().__init__(ContextState, Message)

    def initial(self) -> ContextState:
        """The model has seen nothing yet."""
        return ContextState()

    def fold(
        self, state: ContextState, envelope: Envelope
    ) -> tuple[ContextState, tuple[Change, ...]]:
        """The buffer after an event; what a subagent does is not in it."""
        after = replace(state, speech=evolve_speech(state.speech, envelope))
        if envelope.subagent_id is not None:
            return after, ()
        match envelope.event:
            case MessageDelivered(message_seq=seq):
                speech, message = take_waiting(after.speech, seq)
                after = replace(after, speech=speech)
                if message is None:
                    return after, ()
                row = replace(message, turn_id=envelope.turn_id)
                return after, (Put(key=envelope.seq, row=row),)
            case MessageWithdrawn(message_seq=seq):
                speech, _ = take_waiting(after.speech, seq)
                return replace(after, speech=speech), ()
            case ModelReplied(call_id=call_id) as event:
                if state.speech.calls.get(call_id) != "turn":
                    return after, ()
                if event.usage.prompt_tokens is not None:
                    after = replace(after, token_count=event.usage.prompt_tokens)
                return after, (Put(key=envelope.seq, row=said_by_agent(envelope, event)),)
            case ToolFinished() | PlanReady() as event:
                return after, (Put(key=envelope.seq, row=said_by_agent(envelope, event)),)
            case GuidanceGiven(content=content):
                row = _as_user(envelope, content, is_guidance=True)
                return after, (Put(key=envelope.seq, row=row),)
            case ContextCompressed() as event:
                after = replace(after, token_count=event.tokens_after)
                row = _as_user(envelope, event.summary, is_summary=True)
                # Before everything that is kept, and hidden in its turn by the next compression.
                hide = Hide(before=event.kept_from_seq, by=envelope.seq)
                return after, (hide, Put(key=-envelope.seq, row=row))
            case CompressionUndone(compression_seq=seq):
                return after, (Show(by=seq),)
            case _:
                return after, ()


def _as_user(
    envelope: Envelope, content: str, *, is_guidance: bool = False, is_summary: bool = False
) -> Message:
    return Message(
        seq=envelope.seq,
        role="user",
        content=content,
        at=envelope.at,
        turn_id=envelope.turn_id,
        is_guidance=is_guidance,
        is_summary=is_summary,
    )
