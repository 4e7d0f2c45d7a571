"""What ``navi verify`` finds where somebody has changed history behind navi's back."""

from collections.abc import AsyncGenerator

import asyncpg
import pytest

from navi.adapters.postgres.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import migrate
from navi.cli.verify import verify_log, verify_session
from navi.domain.ids import SessionId
from navi.domain.verdict import Problem, Verdict
from tests.contracts.event_log import batch, created, named, new_id

CHANGED = "the data is not what was written"
UNCHAINED = "the hash does not follow from the event before and the header"


@pytest.fixture
async def log(empty_database: str) -> AsyncGenerator[PostgresEventLog, None]:
    await migrate(empty_database)
    async with PostgresEventLog.open(empty_database, allow_unsafe_durability=True) as event_log:
        yield event_log


@pytest.fixture
async def two(log: PostgresEventLog) -> tuple[SessionId, SessionId]:
    """Two sessions of three events each."""
    ids = (SessionId(new_id()), SessionId(new_id()))
    for session_id in ids:
        await log.append(batch(session_id, 0, created(), named("one"), named("two")))
    return ids


async def found(dsn: str, statement: str, *, session_id: SessionId | None = None) -> Verdict:
    """The verdict of a log on which a statement was run, by a process that never saw it before."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
    async with PostgresEventLog.open(dsn, allow_unsafe_durability=True) as event_log:
        if session_id is None:
            return await verify_log(event_log)
        return await verify_session(event_log, session_id)


def verdict(*problems: Problem, sessions: int = 2, events: int = 6) -> Verdict:
    return Verdict(ok=not problems, sessions=sessions, events=events, problems=problems)


async def test_a_log_that_nobody_touched_holds(
    empty_database: str, two: tuple[SessionId, SessionId]
) -> None:
    assert await found(empty_database, "select 1") == verdict()
    assert await found(empty_database, "select 1", session_id=two[0]) == verdict(
        sessions=1, events=3
    )


async def test_changed_data_are_found_in_their_place(
    empty_database: str, two: tuple[SessionId, SessionId]
) -> None:
    _, second = two

    verified = await found(
        empty_database,
        f"""update navi.event set data = '{{"name":"x","by":"user"}}'
             where session_id = '{second}' and seq = 2""",  # noqa: S608  # an id of our own
    )

    assert verified == verdict(Problem(session_id=second, seq=2, reason=CHANGED))


async def test_a_changed_header_breaks_the_chain(
    empty_database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, _ = two

    verified = await found(
        empty_database,
        f"update navi.event set at = at + '1 s' where session_id = '{first}' and seq = 3",  # noqa: S608  # an id of our own
    )

    assert verified == verdict(Problem(session_id=first, seq=3, reason=UNCHAINED))


async def test_a_changed_event_is_none_of_another_sessions_business(
    empty_database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, second = two

    verified = await found(
        empty_database,
        f"update navi.event set at = at + '1 s' where session_id = '{first}'",  # noqa: S608  # an id of our own
        session_id=second,
    )

    assert verified == verdict(sessions=1, events=3)


async def test_a_removed_event_leaves_a_hole_in_the_log_and_in_its_session(
    empty_database: str, two: tuple[SessionId, SessionId]
) -> None:
    first, _ = two
    removal = f"delete from navi.event where session_id = '{first}' and seq = 2"  # noqa: S608  # an id of our own

    whole = await found(empty_database, removal)
    one = await found(empty_database, "select 1", session_id=first)

    hole = Problem(session_id=None, seq=None, reason="position 0-2 is missing")
    missing = Problem(session_id=first, seq=2, reason="seq 2 is missing")
    assert whole == verdict(hole, missing, events=5)
    assert one == verdict(missing, sessions=1, events=2)
