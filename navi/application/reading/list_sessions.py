"""List sessions: the stored list with the tail of the log folded on top."""

import asyncio
import base64
import binascii
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.application.reading.catalogue import changed_since, session_in, session_now, stored_list
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import Owner, SessionId, is_uuid
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels
from navi.projections.sessions import Sessions

AT_ONCE = (
    200  # sessions worked on between two awaits: some 2 ms, so that a long list holds up no stream
)


class SessionPage(Struct, frozen=True, kw_only=True):
    """Sessions in the order of lists; ``next`` is the cursor of the page behind, if there is one."""

    sessions: tuple[Session, ...]
    next: str | None


class _Place(Struct, frozen=True, array_like=True, order=True):
    """The sort key of a session; larger ones come first."""

    pinned: bool
    last_active: datetime
    id: SessionId


async def list_sessions(
    log: PartitionedLog,
    read_models: ReadModels,
    *,
    owner: Owner | None,
    after: str | None = None,
    limit: int | None = None,
) -> SessionPage:
    """The sessions of an owner, pinned ones first, then by ``last_active``, newest first.

    Each is not older than the last event committed before the call, and ``seq`` is the head of its
    log. A session that is active between two pages may move from one to the other.

    Args:
        owner: whose; None for everybody's.
        after: the cursor of the page before.
        limit: how many at the most; None for all.

    Raises:
        BadInput: ``after`` is no cursor.
        LogUnavailable: Postgres does not answer.
    """
    cursor = None if after is None else _parse(after)
    base = await stored_list(read_models)
    moved = await changed_since(log, read_models, base, owner=owner)
    stored = await read_models.list_sessions(
        Sessions.name,
        base.version,
        owner=owner,
        after=None if cursor is None else (cursor.pinned, cursor.last_active, cursor.id),
        # Those that moved are taken out below; one more tells whether there is a page behind.
        limit=None if limit is None else limit + len(moved) + 1,
    )
    places: dict[_Place, Session] = {}
    for count, (session_id, kept) in enumerate(stored):
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
        if session_id not in moved:
            session = session_in(session_id, kept) if base.is_own else None
            if session is None:
                session = await session_now(log, read_models, session_id)
            _add(places, session, cursor)
    for session in moved.values():
        _add(places, session, cursor)
    order = sorted(places, reverse=True)
    page = order if limit is None else order[:limit]
    sessions: list[Session] = []
    for count, place in enumerate(page):
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
        sessions.append(await _at_head(log, places[place]))
    more = len(order) > len(page)
    return SessionPage(sessions=tuple(sessions), next=_format(page[-1]) if more else None)


def _add(places: dict[_Place, Session], session: Session, cursor: _Place | None) -> None:
    listing = Sessions().listing(session)
    if listing is None:
        return
    place = _Place(listing.pinned, listing.last_active, session.id)
    if cursor is None or place < cursor:
        places[place] = session


async def _at_head(log: PartitionedLog, session: Session) -> Session:
    """The session with the seq of its last event, deltas counted: only an open turn makes those."""
    if session.turn is None:
        return session
    return replace(session, seq=max(session.seq, await log.head(session.id)))


def _format(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _parse(cursor: str) -> _Place:
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = msgspec.json.decode(data, type=_Place)
    except (binascii.Error, UnicodeError, ValueError, RecursionError) as error:
        raise BadInput("after", "is not a cursor of this list") from error
    # One that somebody made up: Postgres refuses what is no UUID, and times beyond its calendar's ends.
    if not is_uuid(place.id) or place.last_active.utcoffset() != timedelta(0):
        raise BadInput("after", "is not a cursor of this list")
    return place
