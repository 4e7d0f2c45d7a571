"""Cache the head of each session: the place and predecessor of its next event."""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.event_log import Recorded

MAX_HEADS = 50_000  # sessions; about 400 bytes each


class ForkPoint(Struct, frozen=True, kw_only=True):
    """The origin of a session, shared up to ``seq``, whose event has ``hash``."""

    session_id: SessionId
    seq: int
    hash: bytes


class Head(Struct, frozen=True, kw_only=True):
    """The end of a session: seq, position and hash of its last event, and what never changes."""

    partition: int
    owner: Owner
    fork: ForkPoint | None
    position: int
    seq: int
    hash: bytes


class Heads:
    """A bounded cache of heads; it may be behind, never ahead of what is committed."""

    def __init__(self) -> None:
        self._heads: OrderedDict[SessionId, Head] = OrderedDict()

    def get(self, session_id: SessionId) -> Head | None:
        """What was seen last, if it is kept."""
        return self._heads.get(session_id)

    def put(self, session_id: SessionId, head: Head) -> None:
        """Keep a head as it was read, whatever was kept before."""
        self._heads[session_id] = head
        self._heads.move_to_end(session_id)
        if len(self._heads) > MAX_HEADS:
            self._heads.popitem(last=False)

    def drop(self, session_id: SessionId) -> None:
        """Drop a cached head, because the outcome of an append is unknown."""
        self._heads.pop(session_id, None)

    def advance(self, last_rows: Iterable[Recorded]) -> None:
        """Move the kept heads on to events that were committed, here or elsewhere."""
        for row in last_rows:
            head = self._heads.get(row.session_id)
            if head is not None and row.seq > head.seq:
                self.put(
                    row.session_id,
                    Head(
                        partition=row.partition,
                        owner=head.owner,
                        fork=head.fork,
                        position=row.position,
                        seq=row.seq,
                        hash=row.hash,
                    ),
                )
