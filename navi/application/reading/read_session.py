"""Read a projection of a session: the stored state with the tail of the log folded on top.

A read is never stale, however far the projectors are behind, and the past, a rebuild and an ordinary
read are one fold.
"""

from contextlib import aclosing
from typing import Any, Generic

from msgspec import Struct

from navi.domain.reading.fold import Fold, Rows
from navi.domain.reading.projection import UNREADABLE, Change, Projection, Put, Show, State
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import FACTS, EventLog, SessionHistory, Types
from navi.ports.read_models import ReadModels, StoredState


class View(Struct, Generic[State], frozen=True, kw_only=True):
    """A projection of a session as of event ``seq``.

    Attributes:
        rows: the visible ones, in order of key, as the projection makes them.
    """

    seq: int
    state: State
    rows: tuple[Any, ...]


async def read_session(
    log: EventLog,
    read_models: ReadModels,
    projection: Projection[State],
    session_id: SessionId,
    *,
    at: int | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> View[State]:
    """The projection of a session, not older than the last event committed before the call.

    Args:
        at: read the past, as it was with event ``at`` as the last; 0 is empty.
        after: only rows with a larger key.
        limit: how many rows at the most; None for all.

    Raises:
        NotFound: there is no such session.
        BadInput: ``at`` is beyond the head of the session.
        LogUnavailable: Postgres does not answer.
    """
    head = await log.head(session_id)
    if head == 0:
        raise NotFound(f"no session {session_id}")
    if at is not None:
        if not 0 <= at <= head:
            raise BadInput("at", f"the session has events 1 to {head}")
        return await replay_session(log, projection, session_id, until=at, after=after, limit=limit)

    name, version = projection.name, projection.version
    stored = await read_models.load(name, version, session_id, rows_after=after, rows_limit=limit)
    fold = _resume(projection, stored)
    changes = await _fold_tail(log, fold, session_id, until=head)
    if stored is not None and _needs_all_rows(changes, stored, limit=limit):
        stored = await read_models.load(name, version, session_id, hidden=True)
        fold = _resume(projection, stored)
        await _fold_tail(log, fold, session_id, until=head)
    return _view(fold, seq=max(head, fold.seq), after=after, limit=limit)


async def replay_session(
    log: SessionHistory,
    projection: Projection[State],
    session_id: SessionId,
    *,
    until: int,
    after: int | None = None,
    limit: int | None = None,
) -> View[State]:
    """Fold the session's events 1 to ``until`` from the log alone, without a read model."""
    fold = Fold(projection)
    await _fold_tail(log, fold, session_id, until=until)
    return _view(fold, seq=until, after=after, limit=limit)


async def open_fold(
    log: EventLog,
    read_models: ReadModels,
    projection: Projection[State],
    session_id: SessionId,
    *,
    rows: bool = True,
) -> Fold[State]:
    """Open a projection of a session as a fold that can be continued.

    Its ``seq`` is the head of the log, deltas counted, though they are not folded in. It knows only
    the visible rows: where a later event brings back hidden ones, it has to be opened anew.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    head = await log.head(session_id)
    stored = await read_models.load(
        projection.name, projection.version, session_id, rows_limit=None if rows else 0
    )
    fold = _resume(projection, stored)
    changes = await _fold_tail(log, fold, session_id, until=head)
    if rows and stored is not None and _needs_all_rows(changes, stored, limit=None):
        stored = await read_models.load(
            projection.name, projection.version, session_id, hidden=True
        )
        fold = _resume(projection, stored)
        await _fold_tail(log, fold, session_id, until=head)
    fold.seq = max(fold.seq, head)
    return fold


def _resume(projection: Projection[State], stored: StoredState | None) -> Fold[State]:
    if stored is None:
        return Fold(projection)
    decode = projection.decode_row
    try:
        return Fold(
            projection,
            seq=stored.seq,
            state=projection.decode_state(stored.state),
            rows=Rows(
                visible=((key, decode(row)) for key, row in stored.rows),
                hidden=((key, by, decode(row)) for key, by, row in stored.hidden),
            ),
        )
    except UNREADABLE:  # a cache is not worth a refusal: the log has it all
        return Fold(projection)


async def _fold_tail(
    log: SessionHistory, fold: Fold[State], session_id: SessionId, *, until: int
) -> list[Change]:
    """Fold in the facts up to ``until``; gives the rows they hid and showed again."""
    moved: list[Change] = []
    if fold.seq >= until:
        return moved
    reading = log.read(session_id, after=fold.seq, until=until, types=_types_of(fold.reads))
    async with aclosing(reading) as batches:
        async for batch in batches:
            for recorded in batch:
                moved += [each for each in fold.apply(recorded) if not isinstance(each, Put)]
    return moved


def _types_of(reads: frozenset[str] | None) -> Types:
    """What a projection is read: the rest of a session is not even fetched."""
    return Types(only=reads, but=FACTS.but)


def _needs_all_rows(changes: list[Change], stored: StoredState, *, limit: int | None) -> bool:
    """Whether the tail changes stored rows outside of the loaded page.

    It does where it brings back what was hidden before, and where it hides rows of a page that was
    cut: others would have to move up. Both are rare and near the head, so reading all rows then is
    cheap over the time.
    """
    if limit == 0:
        return False
    cut = limit is not None and len(stored.rows) >= limit
    return any(change.by <= stored.seq if isinstance(change, Show) else cut for change in changes)


def _view(fold: Fold[State], *, seq: int, after: int | None, limit: int | None) -> View[State]:
    rows = fold.rows.visible(after=after, limit=limit)
    return View(seq=seq, state=fold.state, rows=tuple(row for _, row in rows))
