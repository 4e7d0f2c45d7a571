"""A small projection, and sessions to try it on."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.domain.reading.projection import Change, Hide, Listing, Put, Show
from navi.domain.session.session import Session
from navi.domain.vocabulary.events import (
    AgentEvent,
    CompressionUndone,
    ContextCompressed,
    Envelope,
    MessageWithdrawn,
    SessionCreated,
    SessionDeleted,
    SessionPinned,
    TextDelta,
    TurnCompleted,
    TurnStarted,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    EventId,
    MessageId,
    NodeId,
    Owner,
    SessionId,
    uuid7,
)
from navi.ports.event_log import Append, EventLog, NewEvent, Recorded
from navi.projections.sessions import Sessions

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
POISON = "poison"  # a message that the sample cannot fold


class Sample(Struct, frozen=True, kw_only=True):
    messages: int = 0
    pinned: bool = False
    running: bool = False
    deleted: bool = False
    last_active: datetime | None = None


class SampleProjection:
    """Messages by seq; compressions hide them and are undone; a withdrawn one changes its row."""

    name = "sample"

    def __init__(self, *, poison: str = POISON, version: int = 1, prefix: str = "") -> None:
        """Make it.

        Args:
            prefix: stands before what was said: what another version of the fold changes.
        """
        self.version = version
        self._poison = poison
        self._prefix = prefix

    @property
    def reads(self) -> None:
        """It looks at events of all types."""

    def initial(self) -> Sample:
        return Sample()

    def fold(self, state: Sample, envelope: Envelope) -> tuple[Sample, tuple[Change, ...]]:
        state = replace(state, last_active=envelope.at)
        seq = envelope.seq
        match envelope.event:
            case UserMessageReceived(content=content):
                if content == self._poison:
                    raise KeyError(content)
                return replace(state, messages=state.messages + 1), (
                    Put(key=seq, row=self._prefix + content),
                )
            case MessageWithdrawn(message_seq=key):
                return state, (Put(key=key, row="withdrawn"),)
            case ContextCompressed(summary=summary, kept_from_seq=kept):
                return state, (Hide(before=kept, by=seq), Put(key=-seq, row=summary))
            case CompressionUndone(compression_seq=by):
                return state, (Show(by=by),)
            case SessionPinned(pinned=pinned):
                return replace(state, pinned=pinned), ()
            case TurnStarted():
                return replace(state, running=True), ()
            case TurnCompleted():
                return replace(state, running=False), ()
            case SessionDeleted():
                return replace(state, deleted=True), ()
            case _:
                return state, ()

    def encode_state(self, state: Sample) -> bytes:
        return msgspec.json.encode(state)

    def decode_state(self, data: bytes) -> Sample:
        return msgspec.json.decode(data, type=Sample)

    def encode_row(self, row: Any) -> bytes:
        return msgspec.json.encode(row)

    def decode_row(self, data: bytes) -> Any:
        return msgspec.json.decode(data)

    def listing(self, state: Sample) -> Listing | None:
        if state.deleted or state.last_active is None:
            return None
        return Listing(pinned=state.pinned, last_active=state.last_active, unfinished=state.running)


class OldSessions(Sessions):
    """The catalogue as an older navi keeps it: its states cannot be read by this one."""

    version = Sessions.version - 1

    def encode_state(self, state: Session) -> bytes:
        return b'["of another layout",%b]' % super().encode_state(state)

    def decode_state(self, data: bytes) -> Session:
        return super().decode_state(data[len('["of another layout",') : -1])


def uuid(number: int, part: int = 0) -> str:
    return uuid7(milliseconds=number, random=part.to_bytes(10))


def session(number: int) -> SessionId:
    return SessionId(uuid(number))


CREATED = SessionCreated(profile_id="default", owner=LOCAL_OWNER)
STARTED = TurnStarted(node=NodeId(uuid(1)))
COMPLETED = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
DELTA = TextDelta(call_id=CallId(uuid(2)), text="...")


def said(content: str) -> UserMessageReceived:
    return UserMessageReceived(message_id=MessageId(content or "-"), content=content)


def compressed(kept_from_seq: int, summary: str = "summary") -> ContextCompressed:
    return ContextCompressed(
        summary=summary,
        kept_from_seq=kept_from_seq,
        tokens_before=2,
        tokens_after=1,
        trigger="manual",
    )


async def append(
    log: EventLog,
    session_id: SessionId,
    *events: AgentEvent,
    expected: int | None = None,
    owner: Owner = LOCAL_OWNER,
) -> Sequence[Recorded]:
    """Append events where the session ends, or after ``expected``; each a second after the last."""
    head = await log.head(session_id) if expected is None else expected
    return await log.append(
        Append(
            session_id=session_id,
            owner=owner,
            expected=head,
            events=tuple(
                NewEvent(
                    id=EventId(uuid(int(session_id[:8] + session_id[9:13], 16), seq)),
                    at=NOON + timedelta(seconds=seq),
                    turn_id=None,
                    subagent_id=None,
                    event=event,
                )
                for seq, event in enumerate(events, head + 1)
            ),
        )
    )
