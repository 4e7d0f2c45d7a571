"""Sessions that only a newer navi can go on with."""

from msgspec import Struct

from navi.adapters.postgres.connect import Pool, fetch
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import EVENT_TYPES, UnknownEvent
from navi.domain.vocabulary.ids import SessionId

# Types that are not known at all are passed over when a session is folded, so they stop nothing.
_NEWER = """
    select e.session_id, e.seq, e.type, e.v, e.data
      from navi.event e
      join unnest($1::text[], $2::smallint[]) as known (type, v) on known.type = e.type
     where e.v > known.v
     order by e.session_id, e.seq"""


class NewerSession(Struct, frozen=True, kw_only=True):
    """A session that is for reading only here, and the first event that only a newer navi reads."""

    session_id: SessionId
    seq: int
    type: str
    version: int


async def newer_sessions(pool: Pool) -> tuple[NewerSession, ...]:
    """The sessions that are for reading only on this version of navi, by their ids.

    Raises:
        LogUnavailable: Postgres does not answer, or not in time.
    """
    versions = [kind.V for kind in EVENT_TYPES.values()]
    found: dict[SessionId, NewerSession] = {}
    for row in await fetch(pool, _NEWER, list(EVENT_TYPES), versions):
        session_id = SessionId(str(row["session_id"]))
        if session_id in found:
            continue
        # What was added is passed over where the rest can be read.
        if isinstance(decode_data(row["type"], row["v"], row["data"]), UnknownEvent):
            found[session_id] = NewerSession(
                session_id=session_id, seq=row["seq"], type=row["type"], version=row["v"]
            )
    return tuple(found.values())
