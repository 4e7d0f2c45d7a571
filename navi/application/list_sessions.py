"""The list of sessions: the stored one, with what happened since folded on top."""

import base64
import binascii
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.application.read_session import open_fold
from navi.domain.errors import BadInput
from navi.domain.fold import Fold
from navi.domain.ids import Owner, SessionId
from navi.domain.session import Session
from navi.ports import EventLog, ReadModels, Recorded
from navi.projections.sessions import Sessions

TAIL_ROWS = 1000  # of a partition's log, read at a time


class SessionPage(Struct, frozen=True, kw_only=True):
    """Sessions in the order of lists; ``next`` is the cursor of the page behind, if there is one."""

    sessions: tuple[Session, ...]
    next: str | None


class _Place(Struct, frozen=True, array_like=True, order=True):
    """Where a session stands: larger places come first."""

    pinned: bool
    last_active: datetime
    id: SessionId


async def list_sessions(
    log: EventLog,
    read_models: ReadModels,
    *,
    owner: Owner,
    after: str | None = None,
    limit: int | None = None,
) -> SessionPage:
    """The owner's sessions, pinned ones first, then by ``last_active``, newest first.

    Each is not older than the last event committed before the call, and ``seq`` is the head of its
    log. A session that is active between two pages may move from one to the other.

    Args:
        after: the cursor of the page before.
        limit: how many at the most; None for all.

    Raises:
        BadInput: ``after`` is no cursor.
        LogUnavailable: Postgres does not answer.
    """
    cursor = None if after is None else _parse(after)
    moved = await _moved_since_stored(log, read_models, owner=owner)
    stored = await read_models.list_sessions(
        Sessions.name,
        Sessions.version,
        owner=owner,
        after=None if cursor is None else (cursor.pinned, cursor.last_active, cursor.id),
        # Those that moved are taken out below; one more tells whether there is a page behind.
        limit=None if limit is None else limit + len(moved) + 1,
    )
    projection = Sessions()
    places: dict[_Place, Session] = {}
    for session_id, kept in stored:
        if session_id not in moved:
            session = replace(projection.decode_state(kept.state), id=session_id, seq=kept.seq)
            _add(places, session, cursor)
    for session in moved.values():
        _add(places, session, cursor)
    order = sorted(places, reverse=True)
    page = order if limit is None else order[:limit]
    sessions = [await _at_head(log, places[place]) for place in page]
    more = len(order) > len(page)
    return SessionPage(sessions=tuple(sessions), next=_format(page[-1]) if more else None)


async def _moved_since_stored(
    log: EventLog, read_models: ReadModels, *, owner: Owner
) -> dict[SessionId, Session]:
    """The sessions with events that the stored list does not know, as they are now."""
    positions = await read_models.positions(Sessions.name, Sessions.version)
    folds: dict[SessionId, Fold[Session]] = {}
    for partition in range(log.partitions):
        after = positions.get(partition, 0)
        while True:
            page = await log.read_all(partition, after=after, limit=TAIL_ROWS, deltas=False)
            for row in page.rows:
                if row.owner == owner:
                    await _fold(log, read_models, folds, row)
            after = page.reached
            if after >= page.head:
                break
    return {id_: replace(fold.state, id=id_, seq=fold.seq) for id_, fold in folds.items()}


async def _fold(
    log: EventLog, read_models: ReadModels, folds: dict[SessionId, Fold[Session]], row: Recorded
) -> None:
    fold = folds.get(row.session_id)
    if fold is None:
        projection = Sessions()
        kept = await read_models.load(
            projection.name, projection.version, row.session_id, rows_limit=0
        )
        fold = Fold(projection)
        if kept is not None:
            state = projection.decode_state(kept.state)
            fold = Fold(projection, seq=kept.seq, state=state)
        elif row.seq > 1:  # a fork: what it has from its origin stands elsewhere in the log
            fold = await open_fold(log, read_models, projection, row.session_id, rows=False)
        folds[row.session_id] = fold
    fold.apply(row.envelope)


def _add(places: dict[_Place, Session], session: Session, cursor: _Place | None) -> None:
    listing = Sessions().listing(session)
    if listing is None:
        return
    place = _Place(listing.pinned, listing.last_active, session.id)
    if cursor is None or place < cursor:
        places[place] = session


async def _at_head(log: EventLog, session: Session) -> Session:
    """The session with the seq of its last event, deltas counted: only an open turn makes those."""
    if session.turn is None:
        return session
    return replace(session, seq=max(session.seq, await log.head(session.id)))


def _format(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _parse(cursor: str) -> _Place:
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(data, type=_Place)
    except (binascii.Error, UnicodeError, ValueError) as error:
        raise BadInput("after", "is not a cursor of this list") from error
