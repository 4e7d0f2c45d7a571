"""Follow the turn that answers a message, in the pieces that a program outside is sent."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Literal

from msgspec import Struct

from navi.domain.reading.conversation import AnswerText
from navi.domain.session.session import Session, undecided_calls
from navi.domain.session.turn import add_usage, turn_waits
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import (
    TEXT_DELTA_TYPES,
    ApprovalRequested,
    Envelope,
    MessageDelivered,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanReady,
    SessionDeleted,
    TextDelta,
    ThinkingDelta,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.ports.event_log import EventLog


class Text(Struct, frozen=True):
    """More of the answer."""

    text: str


class Thinking(Struct, frozen=True):
    """More of what it thinks beside it; a plan is part of that."""

    text: str


class Ended(Struct, frozen=True, kw_only=True):
    """The answer is over.

    Attributes:
        how: ``withdrawn``: the message will never be delivered; ``waits``: a person has to decide on the
            tools of these names, and the turn goes on afterwards.
        usage: of all model calls from the turn's start to here.
        truncated: it was cut off for length.
        kind: of a failure, as in ``turn_failed``; with what is said of it.
    """

    how: Literal["completed", "stopped", "failed", "withdrawn", "waits"]
    usage: Usage = Usage()
    truncated: bool = False
    kind: str = ""
    error: str = ""
    waits_for: tuple[str, ...] = ()


Piece = Text | Thinking | Ended


class FollowedAnswer:
    """Follows a session's events from the receipt of a message to the end of the turn that it opens.

    What it gives as text joins to the same text that the projection ``conversation`` makes of the turn.

    Attributes:
        delivered: the message's turn has begun.
    """

    def __init__(self, message_seq: int) -> None:
        self._message_seq = message_seq
        self._answer = AnswerText()
        self._shown: dict[CallId, str] = {}
        self._thought: set[CallId] = set()
        self._usage = Usage()
        self.delivered = False

    def see(self, envelope: Envelope) -> tuple[Piece, ...]:
        """Take the next event; gives what it adds to the answer."""
        event = envelope.event
        match event:
            case MessageDelivered(message_seq=seq) if seq == self._message_seq:
                self.delivered = True
            case MessageWithdrawn(message_seq=seq) if seq == self._message_seq:
                return (Ended(how="withdrawn"),)
            case SessionDeleted():
                return (Ended(how="stopped", usage=self._usage),)
            case TurnStarted():
                self._usage = Usage()
            case _ if not self.delivered:
                return ()  # of a turn before it
            case ModelReplied(usage=usage):
                self._usage = add_usage(self._usage, usage)
                return self._replied(event)
            case TurnCompleted(usage=usage, truncated=truncated):
                return (Ended(how="completed", usage=usage, truncated=truncated is True),)
            case TurnStopped():
                return (Ended(how="stopped", usage=self._usage),)
            case TurnFailed(kind=kind, error=error):
                return (Ended(how="failed", usage=self._usage, kind=kind, error=error),)
            case _ if envelope.subagent_id is not None:
                return ()
            case ModelCalled(purpose="turn", call_id=call_id):
                self._shown[call_id] = ""
            case PlanReady(plan=plan):
                return (Thinking(f"{plan}\n\n"),)
            case ThinkingDelta(call_id=call_id, text=text) if call_id in self._shown and text:
                again = bool(self._thought) and call_id not in self._thought
                self._thought.add(call_id)
                return (Thinking(f"\n\n{text}" if again else text),)
            case TextDelta(call_id=call_id, text=text) if call_id in self._shown:
                return self._show(call_id, text)
            case ModelCallFailed(call_id=call_id) if call_id in self._shown:
                rest = self._rest(call_id, event.partial_text)
                self._answer = self._answer.with_failure(event)
                del self._shown[call_id]
                return rest
            case _:
                pass
        return ()

    def _replied(self, reply: ModelReplied) -> tuple[Piece, ...]:
        if reply.call_id not in self._shown:
            return ()
        rest = self._rest(reply.call_id, reply.content)
        self._answer = self._answer.with_reply(reply)
        del self._shown[reply.call_id]
        return rest

    def _show(self, call_id: CallId, text: str) -> tuple[Piece, ...]:
        if not text:
            return ()
        begun = "" if self._shown[call_id] else self._answer.begun()
        self._shown[call_id] += text
        return (Text(begun + text),)

    def _rest(self, call_id: CallId, whole: str) -> tuple[Piece, ...]:
        """What of a call's words no delta has shown, as of one that was never streamed."""
        shown = self._shown[call_id]
        return self._show(call_id, whole[len(shown) :]) if whole.startswith(shown) else ()

    def waits(self, session: Session) -> Ended | None:
        """That a person has to decide first, where it is so in the session as it is now.

        The turn that waits may be the one before: the message stands behind it then.
        """
        turn = session.turn
        if turn is None or not turn_waits(turn):
            return None
        names = tuple(run.call.name for run in undecided_calls(session))
        return Ended(how="waits", usage=self._usage, waits_for=names)


async def answer_pieces(
    event_log: EventLog,
    find: Callable[[SessionId], Awaitable[Session]],
    session_id: SessionId,
    *,
    message_seq: int,
) -> AsyncGenerator[Piece, None]:
    """The answer to the message received at ``message_seq``, as it comes, ``Ended`` last.

    Args:
        find: the session's present state.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    answer = FollowedAnswer(message_seq)
    asked = True  # where the message came to a turn that waits
    # From the receipt on: where its own turn begins at once, and where one before it still waits.
    async with aclosing(event_log.watch(session_id, after=message_seq - 1)) as batches:
        async for batch in batches:
            for row in batch:
                for piece in answer.see(row.envelope):
                    yield piece
                    if isinstance(piece, Ended):
                        return
            asked = asked or any(row.type == ApprovalRequested.TYPE for row in batch)
            if not asked or batch[-1].type in TEXT_DELTA_TYPES:  # who waits says nothing
                continue
            asked = False
            with suppress(NotFound):  # the events say so, too
                session = await find(session_id)
                waits = answer.waits(session)
                # What was said up to there is shown first.
                if waits is not None and session.seq <= batch[-1].seq:
                    yield waits
                    return
                asked = bool(undecided_calls(session))
