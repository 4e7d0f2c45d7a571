"""The recent rows of a partition, from which tails are read without the database."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from navi.adapters.postgres.log.watchers import weight
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded

MAX_ROWS = 20_000
MAX_BYTES = 32 * 1024 * 1024


class Ring:
    """Consecutive rows up to the last one delivered, oldest first, bounded in number and bytes."""

    def __init__(self) -> None:
        self._rows: deque[Recorded] = deque()
        self._by_session: dict[SessionId, deque[Recorded]] = {}
        self._bytes = 0

    def extend(self, rows: Sequence[Recorded]) -> None:
        """Add rows that follow the last one."""
        for row in rows:
            self._rows.append(row)
            of_session = self._by_session.get(row.session_id)
            if of_session is None:
                of_session = self._by_session[row.session_id] = deque()
            of_session.append(row)
            self._bytes += weight(row)
        while len(self._rows) > MAX_ROWS or self._bytes > MAX_BYTES:
            old = self._rows.popleft()
            self._bytes -= weight(old)
            of_session = self._by_session[old.session_id]
            of_session.popleft()
            if not of_session:
                del self._by_session[old.session_id]

    def clear(self) -> None:
        """Drop all rows, because some were erased in Postgres."""
        self._rows.clear()
        self._by_session.clear()
        self._bytes = 0

    def holds(self, position: int) -> bool:
        """Whether the row at a position is there."""
        return bool(self._rows) and self._rows[0].position <= position <= self._rows[-1].position

    def positions(self, *, after: int, limit: int) -> tuple[Recorded, ...] | None:
        """The rows behind a position, at most ``limit``; None where the ring does not reach back."""
        if not self._rows or after + 1 < self._rows[0].position:
            return None
        start = after + 1 - self._rows[0].position
        # A deque is slow in its middle: take from the end where that is nearer.
        wanted = len(self._rows) - start
        if wanted <= limit:
            return tuple(reversed(tuple(islice(reversed(self._rows), max(0, wanted)))))
        return tuple(islice(self._rows, start, start + limit))

    def session(self, session_id: SessionId, *, after: int) -> tuple[Recorded, ...] | None:
        """The rows of a session behind a seq; None where the ring does not hold all of them."""
        rows = self._by_session.get(session_id)
        if rows is None or after + 1 < rows[0].seq:
            return None
        wanted = max(0, rows[-1].seq - after)
        return tuple(reversed(tuple(islice(reversed(rows), wanted))))
