"""Read models in memory, for tests."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.reading.fold import Rows
from navi.domain.reading.search import Question, is_said, said_with
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_model_builds import ProjectionBatch, SessionChanges
from navi.ports.read_models import Build, NamedRow, ParkedEvent, SaidRow, StoredState


class _Stored:
    """What is stored of one build."""

    def __init__(self, number: int, version: int) -> None:
        self.number = number
        self.version = version
        self.state: Literal["building", "live", "retired"] = "building"
        self.used_at = time.monotonic()
        self.positions: dict[int, int] = {}
        self.sessions: dict[SessionId, SessionChanges] = {}
        self.rows: dict[SessionId, Rows[bytes]] = {}
        self.parked: dict[tuple[SessionId, int], ParkedEvent] = {}

    def commit(self, batch: "_Batch", partition: int) -> None:
        for changes in batch.saved:
            self.sessions[changes.session_id] = changes
            if changes.anew:
                self.rows.pop(changes.session_id, None)
            rows = self.rows.setdefault(changes.session_id, Rows())
            for change in changes.changes:
                rows.apply(change)
        for parked in batch.newly_parked:
            self.parked.setdefault((parked.session_id, parked.seq), parked)
        self.positions[partition] = batch.position


class _Batch:
    """What one transaction wants to change, on top of what is stored."""

    def __init__(self, stored: _Stored, partition: int) -> None:
        self._stored = stored
        self._position = stored.positions.get(partition, 0)
        self.saved: list[SessionChanges] = []
        self.newly_parked: list[ParkedEvent] = []

    @property
    def position(self) -> int:
        return self._position

    async def states(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredState]:
        current = self._stored.sessions | {changes.session_id: changes for changes in self.saved}
        return {id_: _bare(current[id_]) for id_ in session_ids if id_ in current}

    async def save(
        self, sessions: Sequence[SessionChanges], *, parked: Sequence[ParkedEvent], position: int
    ) -> None:
        self.saved.extend(sessions)
        self.newly_parked.extend(parked)
        self._position = position


class InMemoryReadModels:
    """``ReadModels`` without a server; what a block has not committed, nobody sees."""

    def __init__(self) -> None:
        self._builds: dict[str, dict[int, _Stored]] = {}
        self._held: set[tuple[str, int, int]] = set()
        self._numbers = 1_000_000

    def begin(
        self, projection: str, build: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        return self._begin(projection, build, partition)

    @asynccontextmanager
    async def _begin(
        self, projection: str, build: int, partition: int
    ) -> AsyncGenerator[ProjectionBatch | None, None]:
        checkpoint = (projection, build, partition)
        stored = self._builds.get(projection, {}).get(build)
        if checkpoint in self._held or stored is None or stored.state == "retired":
            yield None
            return
        self._held.add(checkpoint)
        try:
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
        stored = self._serving(projection, version)
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
        rows = self._serving(projection, version).rows.get(session_id)
        found = [] if rows is None else [row for row in rows.visible() if row[0] <= until]
        return found[-1] if found else None

    async def forget(
        self, session_id: SessionId, *, keep_listed: bool, but: Collection[str] = ()
    ) -> None:
        while self._held:  # noqa: ASYNC110 - whoever holds a checkpoint is a task of this process
            await asyncio.sleep(0)
        for stored in [
            stored
            for name, builds in self._builds.items()
            for stored in builds.values()
            if name not in but
        ]:
            changes = stored.sessions.get(session_id)
            stored.rows.pop(session_id, None)
            for place in [place for place in stored.parked if place[0] == session_id]:
                del stored.parked[place]
            if changes is not None and changes.listing is not None and keep_listed:
                stored.rows[session_id] = Rows()
                name = json.loads(changes.state).get("name")
                nothing = json.dumps({"name": name, "seq": None}).encode()
                stored.sessions[session_id] = replace(changes, seq=0, state=nothing)
            else:
                stored.sessions.pop(session_id, None)

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        return dict(self._serving(projection, version).positions)

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner | None,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        places = {
            (listing.pinned, listing.last_active, changes.session_id): changes
            for changes in self._serving(projection, version).sessions.values()
            if owner in (None, changes.owner) and (listing := changes.listing) is not None
        }
        wanted = sorted((place for place in places if after is None or place < after), reverse=True)
        return tuple((place[2], _bare(places[place])) for place in wanted[:limit])

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        sessions = self._serving(projection, version).sessions
        found = [
            (session_id, _bare(changes))
            for session_id, changes in sorted(sessions.items())
            if changes.listing is not None and changes.listing.unfinished
        ]
        return tuple(one for one in found if after is None or one[0] > after)[:limit]

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        sessions = self._serving(projection, version).sessions
        found = [
            (session_id, _bare(changes))
            for session_id, changes in sorted(sessions.items())
            if changes.listing is not None and changes.listing.owing
        ]
        return tuple(one for one in found if after is None or one[0] > after)[:limit]

    async def find_marks(
        self, version: int, *, owner: Owner, marks: Sequence[str]
    ) -> Sequence[tuple[SessionId, str]]:
        stored = self._serving("conversation", version)
        return tuple(
            (session_id, mark)
            for session_id, changes in sorted(stored.sessions.items())
            if changes.owner == owner
            for _, row in stored.rows[session_id].visible()
            if (mark := json.loads(row)["mark"]) in marks
        )

    async def find_said(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[SaidRow]:
        stored = self._serving("messages", version)
        said = (
            SaidRow(session_id=session_id, seq=key, role=message.role, text=text, at=message.at)
            for session_id, changes in stored.sessions.items()
            if changes.owner == owner
            for key, row in stored.rows[session_id].visible()
            if (text := said_with(message := msgspec.json.decode(row, type=Message))) is not None
            and message.role != "tool"
            and is_said(question, text)
        )
        return sorted(said, key=lambda row: (row.at, row.session_id, row.seq), reverse=True)

    async def find_named(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[NamedRow]:
        named = (
            NamedRow(session_id=session_id, name=name, last_active=changes.listing.last_active)
            for session_id, changes in self._serving("sessions", version).sessions.items()
            if changes.owner == owner
            and changes.listing is not None
            and (name := json.loads(changes.state)["name"]) is not None
            and is_said(question, name)
        )
        return sorted(named, key=lambda row: row.last_active, reverse=True)

    async def names(
        self, version: int, *, owner: Owner, sessions: Sequence[SessionId]
    ) -> Mapping[SessionId, str | None]:
        stored = self._serving("sessions", version).sessions
        return {
            session_id: json.loads(changes.state)["name"]
            for session_id in sessions
            if (changes := stored.get(session_id)) is not None
            and changes.owner == owner
            and changes.listing is not None
        }

    async def parked(
        self, projection: str, version: int, *, limit: int | None = None
    ) -> Sequence[ParkedEvent]:
        parked = self._serving(projection, version).parked
        return tuple(event for _, event in sorted(parked.items()))[:limit]

    async def builds(self, projections: Sequence[str]) -> Sequence[Build]:
        return tuple(
            _described(projection, stored)
            for projection in sorted(set(projections))
            for _, stored in sorted(self._builds.get(projection, {}).items())
        )

    async def open_build(self, projection: str, version: int) -> Build:
        stored = self._find(projection, version, "live", "building")
        return _described(projection, stored or self._make(projection, version))

    async def rebuild(self, projection: str, version: int) -> Build:
        stored = self._find(projection, version, "building")
        return _described(projection, stored or self._make(projection, version))

    async def switch(self, projection: str, build: int) -> bool:
        new = self._builds.get(projection, {}).get(build)
        if new is None or new.state != "building":
            return new is not None and new.state == "live"
        old = self._find(projection, new.version, "live")
        both = {build} if old is None else {build, old.number}
        if any(held[0] == projection and held[1] in both for held in self._held):
            return False
        if old is not None:
            if any(new.positions.get(part, 0) < at for part, at in old.positions.items()):
                return False
            old.state = "retired"
        new.state = "live"
        return True

    async def in_use(self, projection: str, version: int) -> None:
        for stored in self._builds.get(projection, {}).values():
            if stored.version == version:
                stored.used_at = time.monotonic()

    async def retire_others(self, projection: str, version: int, *, unused_seconds: float) -> None:
        if self._find(projection, version, "live") is None:
            return
        for stored in self._builds[projection].values():
            idle = time.monotonic() - stored.used_at
            if stored.version != version and idle >= unused_seconds:
                stored.state = "retired"

    async def drop_retired(self, *, rows: int) -> bool:
        for builds in self._builds.values():
            for number, stored in list(builds.items()):
                if stored.state != "retired":
                    continue
                for session_id in list(stored.sessions)[:rows]:
                    del stored.sessions[session_id]
                if not stored.sessions:
                    del builds[number]
        return any(
            s.state == "retired" for builds in self._builds.values() for s in builds.values()
        )

    def _find(
        self, projection: str, version: int, *states: Literal["building", "live"]
    ) -> _Stored | None:
        """The build of a version in the first of the states in which there is one."""
        for state in states:
            for stored in self._builds.get(projection, {}).values():
                if (stored.version, stored.state) == (version, state):
                    return stored
        return None

    def _serving(self, projection: str, version: int) -> _Stored:
        return self._find(projection, version, "live", "building") or _Stored(0, version)

    def _make(self, projection: str, version: int) -> _Stored:
        builds = self._builds.setdefault(projection, {})
        number = version
        if number in builds:
            self._numbers += 1
            number = self._numbers
        stored = builds[number] = _Stored(number, version)
        return stored


def _bare(changes: SessionChanges) -> StoredState:
    return StoredState(seq=changes.seq, state=changes.state)


def _described(projection: str, stored: _Stored) -> Build:
    return Build(
        projection=projection,
        number=stored.number,
        version=stored.version,
        state=stored.state,
        positions=dict(stored.positions),
    )
