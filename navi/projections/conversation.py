"""The projection ``conversation``: by which marks a conversation of another program is known again.

What people see of a session, as a program that took part in it from outside has seen it: the messages
that opened turns, and the text of each turn's answer.
"""

from typing import TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.domain.reading.conversation import (
    AnswerText,
    KnownConversation,
    Mark,
    beginning,
    followed_by,
)
from navi.domain.reading.projection import Change, Put
from navi.domain.vocabulary.events import (
    ApprovalRequested,
    ConversationTakenIn,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ProfileSwitched,
    Said,
    SessionCreated,
    SessionDeleted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, Owner, SessionId
from navi.projections.json_form import JsonForm

Waiting = TypeVar("Waiting")


class Point(Struct, frozen=True, kw_only=True):
    """A mark that a session has come by."""

    mark: Mark


class Behind(Struct, frozen=True, kw_only=True):
    """What a program that sent a message has told of the conversation.

    Attributes:
        mark: that the message follows.
        in_turn: it came while a turn was open: all that was told of its answer may be that it waits.
    """

    mark: Mark
    in_turn: bool


class ConversationState(Struct, frozen=True, kw_only=True):
    """The last answer, and what is open; the marks are as in ``KnownConversation``.

    Attributes:
        profile_id: that people have chosen last; the agent itself may have switched since.
        delivered: the open turn has been given the message that opened it.
        waiting: texts of messages that were not delivered yet, by the seq of the receipt.
        behind: what was told with some of them.
        calls: those of the open turn that write its answer.
    """

    owner: Owner = LOCAL_OWNER
    profile_id: str = ""
    mark: Mark = ""
    asked_mark: Mark = ""
    answer: AnswerText = AnswerText()
    unsettled: bool = False
    delivered: bool = False
    deleted: bool = False
    waiting: dict[int, str] = {}
    behind: dict[int, Behind] = {}
    calls: tuple[CallId, ...] = ()


class Conversation(JsonForm[ConversationState]):
    """Rows: points by the seq of the event that led there."""

    name = "conversation"
    version = 1

    def __init__(self) -> None:
        super().__init__(ConversationState, Point)

    def initial(self) -> ConversationState:
        """Nothing was said yet."""
        return ConversationState()

    def fold(
        self, state: ConversationState, envelope: Envelope
    ) -> tuple[ConversationState, tuple[Change, ...]]:
        """The conversation after an event; what subagents do is not in it."""
        match envelope.event:
            case SessionCreated() as created:
                mark = state.mark or beginning(created.owner, None)
                profile_id = created.profile_id
                return replace(state, owner=created.owner, mark=mark, profile_id=profile_id), ()
            case ProfileSwitched(to_profile=profile_id, by="user"):
                return replace(state, profile_id=profile_id), ()
            case SessionDeleted():
                return replace(state, deleted=True), ()
            case ConversationTakenIn() as taken:
                return _taken_in(state, envelope, taken)
            case UserMessageReceived() as received:
                return _received(state, envelope.seq, received), ()
            case MessageWithdrawn(message_seq=seq):
                return _no_more_waiting(state, seq), ()
            case TurnStarted():
                return replace(state, delivered=False, unsettled=False, calls=()), ()
            case MessageDelivered(message_seq=seq) if envelope.subagent_id is None:
                text, behind = state.waiting.get(seq), state.behind.get(seq)
                state = _no_more_waiting(state, seq)
                if text is None or state.delivered:  # said into the turn: part of no exchange
                    return state, ()
                before = state.mark if behind is None else behind.mark
                mark = followed_by(before, Said(role="user", content=text))
                after = replace(
                    state,
                    mark=mark,
                    asked_mark=mark,
                    answer=AnswerText(),
                    delivered=True,
                    unsettled=behind is not None and behind.in_turn,
                )
                return _point(after, envelope)
            case ModelCalled(call_id=call_id, purpose="turn") if envelope.subagent_id is None:
                return replace(state, calls=(*state.calls, call_id)), ()
            case ModelReplied(call_id=call_id) as reply if call_id in state.calls:
                return replace(state, answer=state.answer.with_reply(reply)), ()
            case ModelCallFailed(call_id=call_id) as failed if call_id in state.calls:
                return replace(state, answer=state.answer.with_failure(failed)), ()
            case ApprovalRequested():
                return replace(state, unsettled=True), ()
            case TurnCompleted():
                return _ended(state, envelope)
            case TurnStopped() | TurnFailed():
                return _ended(replace(state, unsettled=True), envelope)
            case _:
                return state, ()


def known_to(
    session_id: SessionId, seq: int, state: ConversationState, points: dict[Mark, int]
) -> KnownConversation:
    """What a session knows of conversations as of event ``seq``."""
    queued_mark = ""
    if state.waiting:
        last, text = max(state.waiting.items())
        if last in state.behind:
            queued_mark = followed_by(state.behind[last].mark, Said(role="user", content=text))
    return KnownConversation(
        session_id=session_id,
        seq=seq,
        places=points,
        mark=state.mark,
        asked_mark=state.asked_mark,
        answer=state.answer.text,
        unsettled=state.unsettled,
        queued_mark=queued_mark,
        waits=bool(state.waiting),
    )


def _received(
    state: ConversationState, seq: int, received: UserMessageReceived
) -> ConversationState:
    state = replace(state, waiting={**state.waiting, seq: received.content})
    if received.behind_sha256 is UNSET:
        return state
    behind = Behind(mark=received.behind_sha256, in_turn=state.delivered)
    return replace(state, behind={**state.behind, seq: behind})


def _no_more_waiting(state: ConversationState, seq: int) -> ConversationState:
    return replace(state, waiting=_without(state.waiting, seq), behind=_without(state.behind, seq))


def _taken_in(
    state: ConversationState, envelope: Envelope, taken: ConversationTakenIn
) -> tuple[ConversationState, tuple[Change, ...]]:
    mark, asked_mark = state.mark, state.asked_mark
    if taken.conversation_id is not UNSET and not asked_mark:
        mark = beginning(state.owner, taken.conversation_id)
    elif not taken.messages:
        return state, ()
    for said in taken.messages:
        mark = followed_by(mark, said)
        asked_mark = mark if said.role == "user" else asked_mark
    after = replace(state, mark=mark, asked_mark=asked_mark, answer=AnswerText(), unsettled=False)
    return _point(after, envelope)


def _ended(
    state: ConversationState, envelope: Envelope
) -> tuple[ConversationState, tuple[Change, ...]]:
    """The turn is over; one without any words leaves the message unanswered."""
    state = replace(state, calls=(), delivered=False)
    said = Said(role="assistant", content=state.answer.text)
    if not said.content.strip() or state.mark != state.asked_mark:
        return state, ()
    return _point(replace(state, mark=followed_by(state.mark, said)), envelope)


def _point(
    state: ConversationState, envelope: Envelope
) -> tuple[ConversationState, tuple[Change, ...]]:
    return state, (Put(key=envelope.seq, row=Point(mark=state.mark)),)


def _without(waiting: dict[int, Waiting], seq: int) -> dict[int, Waiting]:
    return {key: each for key, each in waiting.items() if key != seq}
