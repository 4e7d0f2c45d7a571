"""Event streams in memory that can be deleted, rolled back and made unreachable."""

from collections.abc import Sequence, Set

from msgspec import Struct, field

from navi.domain.log.subjects import format_position
from navi.domain.vocabulary.errors import BusSilent, BusUnavailable, StreamMoved
from navi.domain.vocabulary.ids import EventId, Owner, SessionId
from navi.ports.event_log import Recorded


class _Stream(Struct):
    first: int
    rows: list[Recorded | None] = field(default_factory=list[Recorded | None])  # None: a hole

    @property
    def last(self) -> int:
        return self.first - 1 + len(self.rows)


class InMemoryEventStream:
    """The streams of a log; ``reachable`` may be switched off and on again.

    Attributes:
        stores: off for a server whose disk is full: it takes nothing, and counts the first event all
            the same.
    """

    def __init__(self) -> None:
        self.reachable = True
        self.stores = True
        self._streams: dict[int, _Stream] = {}

    async def open(self, partition: int) -> int:
        self._reach()
        return self._streams.setdefault(partition, _Stream(first=1)).last

    async def event_at(self, partition: int, position: int) -> EventId | None:
        self._reach()
        stream = self._streams.get(partition, _Stream(first=1))
        if not stream.first <= position <= stream.last:
            return None
        row = stream.rows[position - stream.first]
        return None if row is None else row.id

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        self._reach()
        if not self.stores:
            self._streams[partition] = _Stream(first=rows[0].position + 1)
            raise BusSilent("NATS does not answer: no answer within 5 s")
        stream = self._streams.get(partition)
        for row in rows:
            if stream is None or row.position != stream.last + 1:
                place = format_position(partition, row.position)
                raise StreamMoved(f"the stream does not end before {place}")
            stream.rows.append(row)

    async def erase(self, partition: int, positions: Sequence[int]) -> None:
        self._reach()
        stream = self._streams.get(partition, _Stream(first=1))
        for position in positions:
            if stream.first <= position <= stream.last:
                stream.rows[position - stream.first] = None

    async def erase_session(
        self, partition: int, *, owner: Owner, session_id: SessionId, types: Set[str], before: int
    ) -> None:
        self._reach()
        stream = self._streams.get(partition, _Stream(first=1))
        stream.rows[:] = [
            None
            if row is not None
            and (row.owner, row.session_id) == (owner, session_id)
            and row.type in types
            and row.position < before
            else row
            for row in stream.rows
        ]

    async def recreate(self, partition: int, *, first_position: int) -> None:
        self._reach()
        self._streams[partition] = _Stream(first=first_position)

    def positions(self, partition: int) -> tuple[int, ...]:
        """The positions of what is stored, in order."""
        stream = self._streams.get(partition, _Stream(first=1))
        return tuple(row.position for row in stream.rows if row is not None)

    def delete(self, partition: int) -> None:
        """Delete a stream."""
        self._streams.pop(partition, None)

    def roll_back(self, partition: int, *, position: int) -> None:
        """Roll a stream back to a position."""
        stream = self._streams[partition]
        del stream.rows[max(position - stream.first + 1, 0) :]

    def _reach(self) -> None:
        if not self.reachable:
            raise BusUnavailable("NATS is not reachable: switched off")
