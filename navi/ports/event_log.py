"""The event log by session: append, read, watch."""

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from datetime import datetime
from typing import Generic, Protocol, TypeVar, overload

from msgspec import Struct

from navi.domain.log.stored_event import StoredEvent, envelope_of, wire_of
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.events import DELTA_TYPES, AgentEvent, Envelope, UserMessageReceived
from navi.domain.vocabulary.ids import EventId, MessageId, Owner, SessionId, SubagentId, TurnId

Row = TypeVar("Row")
Value = TypeVar("Value")


class once(Generic[Row, Value]):  # noqa: N801 - used as a decorator
    """As ``functools.cached_property``, without the lock that it has before Python 3.12.

    That takes longer than what is made here once a row.
    """

    def __init__(self, make: Callable[[Row], Value]) -> None:
        self._make = make
        self._name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, row: None, owner: type) -> "once[Row, Value]": ...
    @overload
    def __get__(self, row: Row, owner: type) -> Value: ...
    def __get__(self, row: Row | None, owner: type) -> "once[Row, Value] | Value":
        if row is None:
            return self
        value = row.__dict__[self._name] = self._make(row)
        return value


class NewEvent(Struct, frozen=True, kw_only=True):
    """An event to append; its ``id`` makes the append idempotent."""

    id: EventId
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    event: AgentEvent


class Append(Struct, frozen=True, kw_only=True):
    """Consecutive events of one session, appended all or none.

    Attributes:
        expected: seq of the last event the caller has seen; 0 for a new session.
    """

    session_id: SessionId
    owner: Owner
    expected: int
    events: tuple[NewEvent, ...]


class Recorded(StoredEvent, frozen=True, kw_only=True, dict=True):
    """An event as the log holds it: place in session and partition, bytes, links of the hash chain.

    Attributes:
        position: place in the log partition: 1, 2, 3, ... without a hole, in order of commits.
    """

    partition: int
    position: int
    owner: Owner

    @once
    def envelope(self) -> Envelope:
        """The event, decoded once."""
        return envelope_of(self)

    def decode(self) -> Envelope:
        """``envelope``, for those who are ready for a damaged payload.

        Raises:
            LogDamaged: the payload is not what its type says.
        """
        return self.envelope

    @property
    def readable(self) -> AgentEvent | None:
        """The event; None where its payload is not what its type says."""
        with suppress(LogDamaged):
            return self.envelope.event
        return None

    @once
    def wire(self) -> bytes:
        """The envelope as JSON bytes, the same for every reader, encoded once."""
        return wire_of(self)


class Types(Struct, frozen=True, kw_only=True):
    """Types of events: those of ``only``, or all where that is None, without those of ``but``."""

    only: frozenset[str] | None = None
    but: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name not in self.but and (self.only is None or name in self.only)


ALL_TYPES = Types()
FACTS = Types(but=frozenset(DELTA_TYPES))


class Selection(Struct, frozen=True, kw_only=True):
    """Some events of a session: those of some types with ``after`` < seq < ``before``.

    Attributes:
        before: None for the end of the session.
        limit: how many at the most, None for all: the first ones, or where ``before`` is given the last.
    """

    after: int = 0
    before: int | None = None
    limit: int | None = None
    types: Types = ALL_TYPES


class SessionHistory(Protocol):
    """Sessions as those see them who read: one event after another."""

    async def head(self, session_id: SessionId) -> int:
        """The seq of the session's last event; 0 where there is no such session."""
        ...

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """The events with ``after`` < seq <= ``until``, in order, in batches that are never empty."""
        ...

    def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """Stream every event behind ``after``: first from the log, then live, no gap, none twice.

        Endless; the caller closes it. A watcher that does not keep up is served from the log again,
        so that what waits in memory for it is bounded.
        """
        ...


class EventLog(SessionHistory, Protocol):
    """The only truth, as those see it who write to a session and read one."""

    def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """The events of a selection up to seq ``until``, in order, in batches that are never empty."""
        ...

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        """Record events at the end of a session, all or none, durably.

        Appending the same events (by id) at the same place again gives the first answer.

        Raises:
            ConcurrentAppend: the session is at another seq.
            EventTooLarge: an envelope would be above the limit; nothing is stored.
            LogUnavailable: Postgres does not answer; the outcome is unknown.
        """
        ...

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        """Whose session it is; None where there is no such session."""
        ...

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        """The receipt of a message and its seq, found by the client's id."""
        ...
