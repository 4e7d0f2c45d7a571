"""The catalogue of sessions: from the stored list, complete even while that is being built.

A version of navi whose list is not complete yet takes from the list of another version which sessions
there are, and what each of them is from the log.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from navi.application.reading.read_session import open_fold
from navi.domain.reading.fold import Fold
from navi.domain.reading.projection import UNREADABLE, Projection, State
from navi.domain.session.session import Session
from navi.domain.vocabulary.ids import CallId, Owner, SessionId, TurnId
from navi.ports.event_log import Recorded
from navi.ports.log_partitions import Page, PartitionedLog
from navi.ports.read_models import ReadModels, StoredState
from navi.projections.sessions import Sessions

TAIL_ROWS = 1000  # of a partition's log, read at a time
PART = 50  # states read at a time; one may come to hundreds of kB, and is a few as a rule


class StoredList(Struct, frozen=True, kw_only=True):
    """A stored list and its positions; later events are in the log.

    Attributes:
        positions: by partition; at an event up to there a session is in the list as it was then.
        is_own: whether its states are of this version of navi.
    """

    version: int
    positions: Mapping[int, int]
    is_own: bool


async def stored_list(read_models: ReadModels) -> StoredList:
    """The complete list of this version, else the newest of another, else the partial one.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    builds = await read_models.builds([Sessions.name])
    own = [build for build in builds if build.version == Sessions.version]
    live = [build for build in builds if build.state == "live"]
    base = next((build for build in own if build.state == "live"), None) or max(
        live, key=lambda build: (sum(build.positions.values()), build.version), default=None
    )
    if base is None:
        base = next((build for build in own if build.state == "building"), None)
    if base is None:
        return StoredList(version=Sessions.version, positions={}, is_own=True)
    is_own = base.version == Sessions.version
    return StoredList(version=base.version, positions=base.positions, is_own=is_own)


async def changed_since(
    log: PartitionedLog, read_models: ReadModels, base: StoredList, *, owner: Owner | None
) -> dict[SessionId, Session]:
    """Sessions with events behind the stored list, at their present state.

    Args:
        owner: whose; None for everybody's.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    folds = await folds_behind(log, read_models, Sessions(), base, owner=owner)
    return {id_: replace(fold.state, id=id_, seq=fold.seq) for id_, fold in folds.items()}


async def folds_behind(
    log: PartitionedLog,
    read_models: ReadModels,
    projection: Projection[State],
    base: StoredList,
    *,
    owner: Owner | None,
) -> dict[SessionId, Fold[State]]:
    """Sessions with events behind a stored list, folded up to the head of the log.

    Args:
        base: of the same projection.
        owner: whose; None for everybody's.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    folds: dict[SessionId, Fold[State]] = {}
    async with aclosing(_pages_behind(log, base)) as pages:
        async for page in pages:
            for row in page.rows:
                if owner in (None, row.owner):
                    if row.session_id not in folds:
                        folds[row.session_id] = await _begun(
                            log, read_models, projection, base, row
                        )
                    folds[row.session_id].apply(row)
    return folds


async def _pages_behind(log: PartitionedLog, base: StoredList) -> AsyncGenerator[Page, None]:
    """What the log has behind a stored list, partition by partition."""
    for partition in range(log.partitions):
        after = base.positions.get(partition, 0)
        while True:
            page = await log.read_all(partition, after=after, limit=TAIL_ROWS, deltas=False)
            yield page
            after = page.reached
            if after >= page.head:
                break


async def _begun(
    log: PartitionedLog,
    read_models: ReadModels,
    projection: Projection[State],
    base: StoredList,
    row: Recorded,
) -> Fold[State]:
    """Resume the stored fold of a session, at an event or beyond it."""
    if base.is_own:
        kept = await read_models.load(
            projection.name, projection.version, row.session_id, rows_limit=0
        )
        if kept is None and row.seq == 1:
            return Fold(projection)
        if kept is not None:
            with suppress(*UNREADABLE):
                return Fold(projection, seq=kept.seq, state=projection.decode_state(kept.state))
    # Another version's states cannot be read; what a fork has from its origin stands elsewhere.
    return await open_fold(log, read_models, projection, row.session_id, rows=False)


async def session_now(
    log: PartitionedLog, read_models: ReadModels, session_id: SessionId
) -> Session:
    """The session's state at the head of its log.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    fold = await open_fold(log, read_models, Sessions(), session_id, rows=False)
    return replace(fold.state, id=session_id, seq=fold.seq)


def session_in(session_id: SessionId, stored: StoredState) -> Session | None:
    """Decode a stored session; None if it cannot be decoded."""
    try:
        return replace(Sessions().decode_state(stored.state), id=session_id, seq=stored.seq)
    except UNREADABLE:
        return None


class FoundSessions(Struct, frozen=True, kw_only=True):
    """Sessions of all owners that may have something left to do.

    Attributes:
        sessions: as of a moment ago.
        unread: what these are, the log alone says (``session_now``), and each may be damaged there.
    """

    sessions: Mapping[SessionId, Session]
    unread: Sequence[SessionId]


async def unfinished_sessions(log: PartitionedLog, read_models: ReadModels) -> FoundSessions:
    """Sessions of all owners that somebody has to be at work on: a turn, a call, or a waiting message.

    From the stored list, which may be behind by a moment: for somebody who looks again and again.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    base = await stored_list(read_models)
    if base.is_own:
        async with aclosing(_parts(read_models.unfinished, base.version)) as stored:
            return await _decoded(stored)
    unread: dict[SessionId, None] = {}
    async with aclosing(_parts(read_models.unfinished, base.version)) as stored:
        async for session_id, _ in stored:
            unread[session_id] = None
    async with aclosing(_pages_behind(log, base)) as pages:
        async for page in pages:
            unread.update((row.session_id, None) for row in page.rows)
    return FoundSessions(sessions={}, unread=tuple(unread))


async def unfinished_now(
    log: PartitionedLog, read_models: ReadModels, *, owner: Owner | None
) -> Sequence[Session]:
    """The sessions in which something is left to do, at the head of the log, and any that changed lately.

    Args:
        owner: whose; None for everybody's.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    base = await stored_list(read_models)
    sessions: dict[SessionId, Session] = {}
    async with aclosing(stored_unfinished(read_models, base.version)) as found:
        async for id_, stored in found:
            session = session_in(id_, stored) if base.is_own else None
            if session is not None:
                if owner in (None, session.owner):
                    sessions[id_] = session
            # What the list does not tell the log does, as with all that is behind it.
            elif owner is None or await log.owner_of(id_) == owner:
                sessions[id_] = await session_now(log, read_models, id_)
    # Behind the parts: what moved while they were read has events behind the positions of before.
    sessions |= await changed_since(log, read_models, base, owner=owner)
    return [session for session in sessions.values() if owner in (None, session.owner)]


async def open_work_of(
    log: PartitionedLog, read_models: ReadModels, owner: Owner
) -> frozenset[TurnId | CallId]:
    """The open turns, and open calls beside turns, of an owner's sessions, at the head of the log.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    own = await unfinished_now(log, read_models, owner=owner)
    turns = {session.turn.id for session in own if session.turn is not None}
    return frozenset({*turns, *(call.id for session in own for call in session.asides)})


async def owing_sessions(
    read_models: ReadModels, *, after: SessionId | None, limit: int
) -> tuple[FoundSessions, SessionId | None]:
    """At most ``limit`` sessions of all owners in which what follows a turn is due, or that await a person.

    There may be as many as there are sessions, where no model was there for long, and a person may never
    decide: a part at a time is read.
    They are those of this version's own list, as far as that is, and as of a moment ago.

    Args:
        after: the last one of the part before.

    Returns:
        Also the session after which others come; None where these are the last ones.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    stored = await read_models.owing(Sessions.name, Sessions.version, after=after, limit=limit)
    found = await _decoded(_one_by_one(stored))
    return found, stored[-1][0] if len(stored) == limit else None


async def stored_unfinished(
    read_models: ReadModels, version: int
) -> AsyncGenerator[tuple[SessionId, StoredState], None]:
    """Each session of a stored list with something left to do, once; read in parts.

    What moves meanwhile between those that somebody has to be at work on and the others may be missed:
    it has events behind the positions of before.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    given: set[SessionId] = set()
    for read in (read_models.unfinished, read_models.owing):
        async with aclosing(_parts(read, version)) as stored:
            async for one in stored:
                if one[0] not in given:
                    given.add(one[0])
                    yield one


class _ReadPart(Protocol):
    async def __call__(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]: ...


async def _parts(
    read: _ReadPart, version: int
) -> AsyncGenerator[tuple[SessionId, StoredState], None]:
    """All that is read in parts."""
    after = None
    while part := await read(Sessions.name, version, after=after, limit=PART):
        async with aclosing(_one_by_one(part)) as one_by_one:
            async for one in one_by_one:
                yield one
        if len(part) < PART:
            return
        after = part[-1][0]


async def _one_by_one(
    stored: Sequence[tuple[SessionId, StoredState]],
) -> AsyncGenerator[tuple[SessionId, StoredState], None]:
    """Stored states, with a pause behind each: one has whole what its turn's calls were given."""
    for one in stored:
        yield one
        await asyncio.sleep(0)


async def _decoded(stored: AsyncIterable[tuple[SessionId, StoredState]]) -> FoundSessions:
    """The states of this version's own list."""
    sessions = {session_id: session_in(session_id, state) async for session_id, state in stored}
    return FoundSessions(
        sessions={id_: one for id_, one in sessions.items() if one is not None and one.unfinished},
        unread=tuple(id_ for id_, one in sessions.items() if one is None),
    )
