"""Sessions of a newer navi are found in the log, by the first event that this one cannot read."""

from datetime import UTC, datetime

from msgspec import Raw

from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.log.newer_sessions import NewerSession, newer_sessions
from navi.domain.vocabulary.events import AgentEvent, SessionCreated, UnknownEvent
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId, uuid7
from navi.ports.event_log import Append, NewEvent

CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)
OTHER = UnknownEvent(name="turn_completed", version=90, data=Raw(b'{"how":"well"}'))
GROWN = UnknownEvent(
    name="session_renamed", version=90, data=Raw(b'{"name":"x","by":"user","why":1}')
)
UNHEARD = UnknownEvent(name="never_heard_of", version=90, data=Raw(b"{}"))


def session(number: int) -> SessionId:
    return SessionId(uuid7(milliseconds=1, random=number.to_bytes(10)))


async def append(log: PostgresEventLog, session_id: SessionId, *events: AgentEvent) -> None:
    news = tuple(
        NewEvent(
            id=EventId(uuid7(milliseconds=2, random=session_id[-9:].encode()[:9] + bytes([n]))),
            at=datetime(2026, 11, 22, tzinfo=UTC),
            turn_id=None,
            subagent_id=None,
            event=event,
        )
        for n, event in enumerate(events)
    )
    await log.append(Append(session_id=session_id, owner=LOCAL_OWNER, expected=0, events=news))


async def test_a_session_with_an_event_that_only_a_newer_navi_reads_is_named(database: str) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        await append(log, session(1), CREATED, GROWN, UNHEARD)
        await append(log, session(2), CREATED, OTHER, OTHER)

    async with open_pool(database, size=1) as pool:
        found = await newer_sessions(pool)

    assert found == (NewerSession(session_id=session(2), seq=2, type="turn_completed", version=90),)
