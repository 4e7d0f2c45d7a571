"""Sessions that only a newer navi can go on with."""

from contextlib import aclosing

from msgspec import Struct

from navi.adapters.postgres.connect import QUERY_SECONDS, Pool, fetch
from navi.adapters.postgres.log.pages import steps_through
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import EVENT_TYPES, UnknownEvent
from navi.domain.vocabulary.ids import SessionId

# (partition, after, until, types, their versions).
# Types that are not known at all are passed over when a session is folded, so they stop nothing.
_NEWER = """
    select e.session_id, e.seq, e.type, e.v, e.data
      from navi.event e
      join unnest($4::text[], $5::smallint[]) as known (type, v) on known.type = e.type
     where e.partition = $1 and e.position > $2 and e.position <= $3 and e.v > known.v
     order by e.position"""


class NewerSession(Struct, frozen=True, kw_only=True):
    """A session that is for reading only here, and the first event that only a newer navi reads."""

    session_id: SessionId
    seq: int
    type: str
    version: int


async def newer_sessions(pool: Pool) -> tuple[NewerSession, ...]:
    """The sessions that are for reading only on this version of navi, by their ids.

    Reads the whole log, in steps.

    Raises:
        LogUnavailable: Postgres does not answer, or not in time.
    """
    known = (list(EVENT_TYPES), [kind.V for kind in EVENT_TYPES.values()])
    found: dict[SessionId, NewerSession] = {}
    async with aclosing(steps_through(pool)) as steps:
        async for place in steps:
            for row in await fetch(pool, _NEWER, *place, *known, seconds=QUERY_SECONDS):
                session_id = SessionId(str(row["session_id"]))
                if session_id in found:
                    continue
                # What was added is passed over where the rest can be read.
                if isinstance(decode_data(row["type"], row["v"], row["data"]), UnknownEvent):
                    found[session_id] = NewerSession(
                        session_id=session_id, seq=row["seq"], type=row["type"], version=row["v"]
                    )
    return tuple(found[session_id] for session_id in sorted(found))
