"""What statements touch does not grow with the log, in a database that has no statistics yet."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from navi.adapters.log_rows import encode_events, hashes_of
from navi.adapters.postgres.log import session_reader, statements
from navi.adapters.postgres.log.event_log import ALONG_ONE_INDEX, PostgresEventLog
from navi.adapters.postgres.log.writer import Slice, _arguments
from navi.adapters.postgres.reader_role import PLANNER, READER_ROLE
from navi.domain.vocabulary.events import TextDelta
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, SessionId, uuid7
from navi.ports.event_log import Append, NewEvent

SESSION = SessionId(uuid7(milliseconds=1, random=bytes(10)))
LOOKED_AT = """
    select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'session'"""
FETCHED = "select idx_tup_fetch from pg_stat_xact_user_tables where relname = 'event_p0'"


def batch(*, expected: int, count: int) -> Append:
    events = tuple(
        NewEvent(
            id=EventId(uuid7(milliseconds=expected + nth, random=bytes(10))),
            at=datetime(2026, 11, 20, tzinfo=UTC),
            turn_id=None,
            subagent_id=None,
            event=TextDelta(call_id=CallId("call_0123456789ab"), text="x"),
        )
        for nth in range(count)
    )
    return Append(session_id=SESSION, owner=LOCAL_OWNER, expected=expected, events=events)


async def fill(log: PostgresEventLog) -> int:
    """Append to an empty log, which makes the plan, and then much more."""
    await log.append(batch(expected=0, count=1))
    for start in range(1, 3001, 500):
        await log.append(batch(expected=start, count=500))
    return 3001


async def test_an_append_touches_a_few_rows_also_where_it_was_planned_on_an_empty_log(
    database: str,
) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        expected = await fill(log)
        connection: Any = log._writers[0]._connection

        async with connection.transaction():
            before = await connection.fetchval(FETCHED)
            answer = await connection.fetchrow(
                statements.APPEND, *_arguments(0, [_slice(log, expected=expected)])
            )
            fetched = await connection.fetchval(FETCHED) - before

    assert (tuple(answer), fetched) == ((expected, [True]), 2)


async def test_the_head_of_a_session_is_found_without_looking_at_the_session(
    database: str,
) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        expected = await fill(log)
    connection = await asyncpg.connect(database, server_settings=ALONG_ONE_INDEX)
    try:
        async with connection.transaction():
            row: Any = await connection.fetchrow(statements.HEAD_OF_SESSION, SESSION)
            fetched = await connection.fetchval(FETCHED)
    finally:
        await connection.close()

    assert (row["seq"], fetched) == (expected, 1)


async def test_what_a_person_reads_of_a_session_is_found_without_looking_at_other_sessions(
    database: str,
) -> None:
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        expected = await fill(log)
    owner = await asyncpg.connect(database)
    try:
        assert await owner.fetchval("select navi.open_reader()")
        await owner.execute("""
            insert into navi.session (session_id, partition, owner, base_hash)
            select gen_random_uuid(), 0, 'local', '' from generate_series(1, 2000);
            analyze navi.session, navi.event""")
    finally:
        await owner.close()
    settings = {"role": READER_ROLE, "navi.owner": LOCAL_OWNER, **PLANNER}
    connection = await asyncpg.connect(database, server_settings=settings)
    try:
        async with connection.transaction():
            head: Any = await connection.fetchrow(statements.HEAD_OF_SESSION, SESSION)
            rows = await connection.fetch(statements.SESSION_ROWS, 0, SESSION, 0, expected, 50)
            looked_at = await connection.fetchval(LOOKED_AT)
    finally:
        await connection.close()

    assert (head["seq"], len(rows)) == (expected, 50)
    assert looked_at <= 2 + 50 + 2  # each row asks, and each statement for the session itself


async def test_all_sessions_of_a_log_are_read_a_part_at_a_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_reader, "SESSIONS_AT_ONCE", 2)
    ids = [SessionId(uuid7(milliseconds=number, random=bytes(10))) for number in range(2, 7)]
    async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
        for session_id in ids:
            await log.append(replace(batch(expected=0, count=2), session_id=session_id))

        heads = await log.sessions()

    assert [(head.session_id, head.seq) for head in heads] == [(one, 2) for one in ids]


def _slice(log: PostgresEventLog, *, expected: int) -> Slice:
    head = log._heads.get(SESSION)
    assert head is not None
    events = encode_events(batch(expected=expected, count=1))
    return Slice(
        session_id=SESSION,
        owner=LOCAL_OWNER,
        is_new=False,
        forked_from=None,
        expected=expected,
        previous_position=head.position,
        previous_hash=head.hash,
        events=events,
        hashes=hashes_of(events, session_id=SESSION, expected=expected, previous=head.hash),
        deadline=0,
        answer=asyncio.get_running_loop().create_future(),
    )
