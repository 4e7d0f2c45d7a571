"""Push committed rows to the watchers of their session, through bounded queues."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain

from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import SessionId
from navi.flag import Flag
from navi.ports.event_log import Recorded

MAX_WAITING_ROWS = 1000
MAX_WAITING_BYTES = 4 * 1024 * 1024
ROW_BYTES = 600  # what a row costs besides its payload, about


class Watcher:
    """The bounded queue of one watcher. On overflow it is emptied: the log still has the rows."""

    def __init__(self) -> None:
        self._waiting: list[Sequence[Recorded]] = []
        self._rows = 0
        self._bytes = 0
        self._overflowed = False
        self._closed = False
        self._arrived = Flag()

    def push(self, rows: Sequence[Recorded], size: int) -> None:
        """Hand over rows that were committed, of ``size`` bytes together."""
        self._arrived.set()
        if self._overflowed:
            return
        self._rows += len(rows)
        self._bytes += size
        if self._rows > MAX_WAITING_ROWS or self._bytes > MAX_WAITING_BYTES:
            self._overflowed = True
            self._waiting.clear()
        else:
            self._waiting.append(rows)

    def forget(self) -> None:
        """Empty the queue, because rows in it were erased; the log has the rest."""
        if self._waiting:
            self._overflowed = True
            self._waiting.clear()

    def close(self) -> None:
        """Say that nothing will come any more."""
        self._closed = True
        self._arrived.set()

    async def take(self) -> tuple[Recorded, ...] | None:
        """Wait for rows and take them all; None if the watcher must read the log.

        Raises:
            LogUnavailable: the log was closed.
        """
        await self._arrived.wait()
        if self._closed:
            raise LogUnavailable("the log is closed")
        self._arrived.clear()
        overflowed, self._overflowed = self._overflowed, False
        parts = self._waiting
        rows = tuple(parts[0]) if len(parts) == 1 else tuple(chain.from_iterable(parts))
        self._waiting.clear()
        self._rows = self._bytes = 0
        return None if overflowed else rows


class Watchers:
    """The watchers of the sessions of one partition."""

    def __init__(self) -> None:
        self._by_session: dict[SessionId, set[Watcher]] = {}

    @contextmanager
    def watching(self, session_id: SessionId) -> Generator[Watcher, None, None]:
        """A queue that gets every row delivered from now on."""
        watcher = Watcher()
        self._by_session.setdefault(session_id, set()).add(watcher)
        try:
            yield watcher
        finally:
            group = self._by_session[session_id]
            group.discard(watcher)
            if not group:
                del self._by_session[session_id]

    def deliver(self, rows: Sequence[Recorded]) -> None:
        """Hand rows to those who watch their sessions; all of them share the objects."""
        if not self._by_session:
            return
        watched: dict[SessionId, list[Recorded]] = {}
        for row in rows:
            if row.session_id in self._by_session:
                watched.setdefault(row.session_id, []).append(row)
        for session_id, part in watched.items():
            size = sum(weight(row) for row in part)
            for watcher in self._by_session[session_id]:
                watcher.push(part, size)

    def forget(self) -> None:
        """Empty the queues: every watcher reads from the log again."""
        for watcher in self._all():
            watcher.forget()

    def close(self) -> None:
        """End every watcher."""
        for watcher in self._all():
            watcher.close()

    def _all(self) -> Iterable[Watcher]:
        return [watcher for group in self._by_session.values() for watcher in group]


def weight(row: Recorded) -> int:
    """What a row costs in memory, in bytes, about."""
    return len(row.data) + ROW_BYTES
