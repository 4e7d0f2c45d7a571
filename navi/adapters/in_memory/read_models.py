"""Read models in the memory of one process, for tests."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime

from navi.domain.fold import Rows
from navi.domain.ids import Owner, SessionId
from navi.ports import Parked, ProjectionBatch, SessionChanges, StoredState


class _Stored:
    """What is stored of one projection in one version."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.sessions: dict[SessionId, SessionChanges] = {}
        self.rows: dict[SessionId, Rows[bytes]] = {}
        self.parked: dict[SessionId, Parked] = {}

    def commit(self, batch: "_Batch", partition: int) -> None:
        for changes in batch.saved:
            self.sessions[changes.session_id] = changes
            rows = self.rows.setdefault(changes.session_id, Rows())
            for change in changes.changes:
                rows.apply(change)
        for parked in batch.newly_parked:
            self.parked.setdefault(parked.session_id, parked)
        self.positions[partition] = batch.position


class _Batch:
    """What one transaction wants to change, on top of what is stored."""

    def __init__(self, stored: _Stored, partition: int) -> None:
        self._stored = stored
        self._position = stored.positions.get(partition, 0)
        self.saved: list[SessionChanges] = []
        self.newly_parked: list[Parked] = []

    @property
    def position(self) -> int:
        return self._position

    async def states(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredState]:
        current = self._stored.sessions | {changes.session_id: changes for changes in self.saved}
        return {id_: _bare(current[id_]) for id_ in session_ids if id_ in current}

    async def parked(self, session_ids: Sequence[SessionId]) -> frozenset[SessionId]:
        current = self._stored.parked.keys() | {parked.session_id for parked in self.newly_parked}
        return frozenset(current & frozenset(session_ids))

    async def save(
        self, sessions: Sequence[SessionChanges], *, parked: Sequence[Parked], position: int
    ) -> None:
        self.saved.extend(sessions)
        self.newly_parked.extend(parked)
        self._position = position


class InMemoryReadModels:
    """``ReadModels`` without a server; what a block has not committed, nobody sees."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, int], _Stored] = {}
        self._held: set[tuple[str, int, int]] = set()

    def begin(
        self, projection: str, version: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        return self._begin(projection, version, partition)

    @asynccontextmanager
    async def _begin(
        self, projection: str, version: int, partition: int
    ) -> AsyncGenerator[ProjectionBatch | None, None]:
        checkpoint = (projection, version, partition)
        if checkpoint in self._held:
            yield None
            return
        self._held.add(checkpoint)
        try:
            stored = self._of(projection, version)
            batch = _Batch(stored, partition)
            yield batch
            stored.commit(batch, partition)
        finally:
            self._held.discard(checkpoint)

    async def load(
        self,
        projection: str,
        version: int,
        session_id: SessionId,
        *,
        rows_after: int | None = None,
        rows_limit: int | None = None,
        hidden: bool = False,
    ) -> StoredState | None:
        stored = self._of(projection, version)
        changes = stored.sessions.get(session_id)
        if changes is None:
            return None
        rows = stored.rows[session_id]
        return StoredState(
            seq=changes.seq,
            state=changes.state,
            rows=rows.visible(after=rows_after, limit=rows_limit),
            hidden=rows.hidden() if hidden else (),
        )

    async def last_row(
        self, projection: str, version: int, session_id: SessionId, *, until: int
    ) -> tuple[int, bytes] | None:
        rows = self._of(projection, version).rows.get(session_id)
        found = [] if rows is None else [row for row in rows.visible() if row[0] <= until]
        return found[-1] if found else None

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        return dict(self._of(projection, version).positions)

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        places = {
            (listing.pinned, listing.last_active, changes.session_id): changes
            for changes in self._of(projection, version).sessions.values()
            if changes.owner == owner and (listing := changes.listing) is not None
        }
        wanted = sorted((place for place in places if after is None or place < after), reverse=True)
        return tuple((place[2], _bare(places[place])) for place in wanted[:limit])

    async def unfinished(
        self, projection: str, version: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        sessions = self._of(projection, version).sessions
        return tuple(
            (session_id, _bare(changes))
            for session_id, changes in sorted(sessions.items())
            if changes.listing is not None and changes.listing.unfinished
        )

    async def parked(self, projection: str, version: int) -> Sequence[Parked]:
        return tuple(parked for _, parked in sorted(self._of(projection, version).parked.items()))

    async def reset(self, projection: str, version: int) -> None:
        self._stored.pop((projection, version), None)

    def _of(self, projection: str, version: int) -> _Stored:
        return self._stored.setdefault((projection, version), _Stored())


def _bare(changes: SessionChanges) -> StoredState:
    return StoredState(seq=changes.seq, state=changes.state)
