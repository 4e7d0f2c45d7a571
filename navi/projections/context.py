"""The projection ``context``: what the model sees after the system message; compressible.

Rows are keyed by the seq of the event that brought them in: a user's message stands where it was
delivered, though it carries the seq of its receipt. So the buffer only grows at its end, and no tool
call is parted from its result by a message that came in between.
"""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.domain.context.messages import Message, Picture
from navi.domain.reading.projection import Change, Hide, Put, Show
from navi.domain.session.instructions import HEADING
from navi.domain.vocabulary.events import (
    CompressionUndone,
    ContextCompressed,
    ConversationTakenIn,
    Envelope,
    GuidanceGiven,
    ImageShown,
    MemoryRecalled,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanReady,
    SubagentStarted,
    ToolFinished,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import SubagentId, TurnId
from navi.projections.json_form import JsonForm
from navi.projections.message_rows import (
    OpenMessages,
    agent_message,
    evolve_open_messages,
    take_waiting,
    taken_in,
)


class Compression(Struct, frozen=True, kw_only=True):
    """A compression that is in force; ``token_count`` is the count that it took the place of.

    Attributes:
        kept_from_seq: it hides the rows with a key below.
    """

    seq: int
    kept_from_seq: int
    token_count: int | None


class RecallPlace(Struct, frozen=True, kw_only=True):
    """Where a turn's recall stands; ``key`` is of its row."""

    turn_id: TurnId | None
    key: int


class ContextState(Struct, frozen=True, kw_only=True):
    """What is open, and the context's tokens as the model server last counted them.

    Attributes:
        compressions: oldest first; the last one is the one that can be undone.
        recall: of the last turn that was told of memories beside its message.
    """

    speech: OpenMessages = OpenMessages()
    token_count: int | None = None
    compressions: tuple[Compression, ...] = ()
    recall: RecallPlace | None = None


_READS = frozenset(
    {
        CompressionUndone.TYPE,
        ContextCompressed.TYPE,
        ConversationTakenIn.TYPE,
        GuidanceGiven.TYPE,
        ImageShown.TYPE,
        MemoryRecalled.TYPE,
        MessageDelivered.TYPE,
        MessageWithdrawn.TYPE,
        ModelCalled.TYPE,
        ModelCallFailed.TYPE,
        ModelReplied.TYPE,
        PlanReady.TYPE,
        SubagentStarted.TYPE,
        ToolFinished.TYPE,
        UserMessageReceived.TYPE,
    }
)


class Context(JsonForm[ContextState]):
    """Rows: messages by the seq of the event that brought them into the context.

    Args:
        subagent_id: whose context; None for the session's own, the only one that is stored.
    """

    name = "context"
    version = 4

    def __init__(self, subagent_id: SubagentId | None = None) -> None:
        super().__init__(ContextState, Message)
        self._subagent_id = subagent_id

    @property
    def reads(self) -> frozenset[str]:
        """What the fold below has a case for."""
        return _READS

    def initial(self) -> ContextState:
        """The model has seen nothing yet."""
        return ContextState()

    def fold(
        self, state: ContextState, envelope: Envelope
    ) -> tuple[ContextState, tuple[Change, ...]]:
        """The buffer after an event; what other actors do is not in it."""
        speech = evolve_open_messages(state.speech, envelope)
        after = state if speech is state.speech else replace(state, speech=speech)
        if envelope.subagent_id != self._subagent_id:
            return after, ()
        match envelope.event:
            # Most of what happens: not asked of each class below.
            case ToolFinished() | PlanReady() as event:
                return after, (Put(key=envelope.seq, row=agent_message(envelope, event)),)
            case ConversationTakenIn() as taken:
                return after, _taken_in(envelope, taken)
            case SubagentStarted(task=task):
                return after, (Put(key=envelope.seq, row=_as_user(envelope, task)),)
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
                return after, (Put(key=envelope.seq, row=agent_message(envelope, event)),)
            case ModelCallFailed(call_id=call_id, kept=int()) as event:
                if state.speech.calls.get(call_id) != "turn":
                    return after, ()
                # It answered before it ran in circles: to the model that is its answer.
                row = replace(agent_message(envelope, event), is_partial=False)
                return after, (Put(key=envelope.seq, row=row),)
            case GuidanceGiven(content=content):
                row = _as_user(envelope, content, is_guidance=True)
                return after, (Put(key=envelope.seq, row=row),)
            case ImageShown() as shown:
                row = _as_user(envelope, f"{shown.path}:", is_guidance=True)
                return after, (Put(key=envelope.seq, row=replace(row, picture=_picture(shown))),)
            case MemoryRecalled(content=content, beside=True):
                # Told again in the same turn, because a memory was changed or forgotten: in its place,
                # for nothing may come between a call and its result.
                place = state.recall
                if place is None or place.turn_id != envelope.turn_id:
                    place = RecallPlace(turn_id=envelope.turn_id, key=envelope.seq)
                after = replace(after, recall=place)
                # What a compression has taken out of the context stays out.
                if not content or any(c.kept_from_seq > place.key for c in after.compressions):
                    return after, ()
                row = _as_user(envelope, content, is_guidance=True)
                return after, (Put(key=place.key, row=row),)
            case ContextCompressed() as event:
                compression = Compression(
                    seq=envelope.seq,
                    kept_from_seq=event.kept_from_seq,
                    token_count=after.token_count,
                )
                after = replace(
                    after,
                    token_count=event.tokens_after,
                    compressions=(*after.compressions, compression),
                )
                row = _as_user(envelope, event.summary, is_summary=True)
                # Before everything that is kept, and hidden in its turn by the next compression.
                hide = Hide(before=event.kept_from_seq, by=envelope.seq)
                return after, (hide, Put(key=-envelope.seq, row=row))
            case CompressionUndone(compression_seq=seq):
                undone = next((c for c in after.compressions if c.seq == seq), None)
                if undone is None:
                    return after, ()
                left = tuple(c for c in after.compressions if c.seq != seq)
                after = replace(after, token_count=undone.token_count, compressions=left)
                return after, (Show(by=seq),)
            case _:
                return after, ()


def _taken_in(envelope: Envelope, taken: ConversationTakenIn) -> tuple[Change, ...]:
    """A conversation, with the instructions that stand beside it: those in the system message do not."""
    row = taken_in(envelope, taken)
    if taken.instructions and taken.beside is True:
        row = replace(row, content=f"{HEADING}\n{taken.instructions}", is_guidance=True)
    elif not taken.messages:
        return ()
    return (Put(key=envelope.seq, row=row),)


def _picture(shown: ImageShown) -> Picture | UnsetType:
    if shown.base64_sha256 is UNSET or shown.erased is True:
        return UNSET
    return Picture(
        path=shown.path,
        sha256=shown.sha256,
        media_type=shown.media_type,
        width=shown.width,
        height=shown.height,
        base64_sha256=shown.base64_sha256,
    )


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
        is_subagent=envelope.subagent_id is not None,
        subagent_id=envelope.subagent_id if envelope.subagent_id is not None else UNSET,
    )
