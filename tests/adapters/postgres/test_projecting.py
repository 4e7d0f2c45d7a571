"""The projector on the real log and the real read models, killed in the middle of its work."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec
import pytest

from navi import failpoints
from navi.adapters.postgres.connect import IDLE_SECONDS, open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.read_models import projection_batch
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.read_session import replay_session
from navi.domain.reading.projection import Put
from navi.domain.vocabulary.events import Origin, SessionCreated
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from navi.ports.log_admin import LogBackend
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.read_model_builds import SessionChanges
from tests.application.sample import (
    CREATED,
    DELTA,
    SampleProjection,
    append,
    compressed,
    said,
    session,
)

ROOT = Path(__file__).parents[3]
SAMPLE = SampleProjection()
KILLS = 4
SESSIONS = [session(number) for number in range(1, 11)]

# Brings the read models up to date, in small batches: dsn, failpoints.
CHILD = """
import asyncio, sys
from navi import failpoints
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from tests.adapters.postgres.test_projecting import SAMPLE, stores

async def main(dsn, rules):
    failpoints.arm(failpoints.parse(rules))
    async with stores(dsn) as (log, read_models):
        await Projector(log, read_models, [SAMPLE], SystemClock(), batch_events=4).caught_up()

asyncio.run(main(*sys.argv[1:]))
"""
CHILD_THAT_REBUILDS = CHILD.replace(
    ".caught_up()", '.build(SAMPLE, await read_models.rebuild("sample", 1))'
)


@asynccontextmanager
async def stores(dsn: str) -> AsyncGenerator[tuple[LogBackend, ReadModelBackend], None]:
    async with (
        PostgresEventLog.open(dsn, allow_unsafe_durability=True) as log,
        open_pool(dsn, size=8) as pool,
    ):
        yield log, PostgresReadModels(pool)


async def test_a_projector_killed_in_a_batch_loses_and_doubles_nothing(database: str) -> None:
    async with stores(database) as (log, read_models):
        for session_id in SESSIONS:
            await append(log, session_id, CREATED, said("one"), DELTA, said("two"), compressed(3))

        for failpoint in ("projection.before_commit@3=kill", "projection.after_commit@2=kill"):
            assert await run_child(database, failpoint) == -signal.SIGKILL
        positions = await read_models.positions("sample", 1)
        await Projector(log, read_models, [SAMPLE], SystemClock()).caught_up()

        # Two batches of four before the first kill, and two before the second.
        assert positions == {0: 16}
        for session_id in SESSIONS:
            await check_stored(log, read_models, session_id)


async def test_a_rebuild_killed_in_a_batch_goes_on_where_it_was(database: str) -> None:
    async with stores(database) as (log, read_models):
        for session_id in SESSIONS:
            await append(log, session_id, CREATED, said("one"), DELTA, said("two"), compressed(3))
        projector = Projector(log, read_models, [SAMPLE], SystemClock())
        await projector.caught_up()
        build = await read_models.rebuild("sample", 1)

        killed = await run_child(database, "projection.after_commit@2=kill", CHILD_THAT_REBUILDS)
        (old, new) = await read_models.builds(["sample"])
        await projector.build(SAMPLE, build)
        while await read_models.drop_retired(rows=7):
            pass

        assert killed == -signal.SIGKILL
        # Two batches of four.
        assert (old.state, new.state, new.positions) == ("live", "building", {0: 8})
        (left,) = await read_models.builds(["sample"])
        assert (left.number, left.state, left.positions) == (build.number, "live", {0: 50})
        for session_id in SESSIONS:
            await check_stored(log, read_models, session_id)


async def test_projectors_whose_connections_are_killed_reach_the_head_of_a_growing_log(
    database: str,
) -> None:
    async with (
        stores(database) as (log, read_models),
        stores(database) as (other_log, other_read_models),
    ):
        followers = [
            asyncio.create_task(Projector(*node, [SAMPLE], SystemClock(), batch_events=10).run())
            for node in ((log, read_models), (other_log, other_read_models))
        ]
        failpoints.arm(failpoints.parse("projection.before_commit=sleep:0.05"))
        admin = await asyncpg.connect(database)
        try:
            for nth in range(KILLS):
                for session_id in SESSIONS:
                    await append(
                        log, session_id, *([] if nth else [CREATED]), DELTA, said(str(nth))
                    )
                async with asyncio.timeout(60):
                    while not await kill_batch(admin):  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.005)
            failpoints.arm(())
            head = len(SESSIONS) * (1 + 2 * KILLS)
            async with asyncio.timeout(60):
                while (await read_models.positions("sample", 1)).get(0) != head:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.02)
        finally:
            failpoints.arm(())
            await admin.close()
            for follower in followers:
                follower.cancel()
            await asyncio.wait(followers, timeout=60)

        assert all(follower.cancelled() for follower in followers)
        for session_id in SESSIONS:
            await check_stored(log, read_models, session_id)


SLOW_SECONDS = IDLE_SECONDS + 1.0


async def test_a_fork_is_folded_however_long_it_takes_to_read_its_origin(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a transaction may be idle; else the same batch would be begun again and again."""
    origin, fork = SESSIONS[:2]
    forked = SessionCreated(
        profile_id="default", owner=LOCAL_OWNER, forked_from=Origin(session_id=origin, seq=2)
    )
    async with stores(database) as (log, read_models):
        await append(log, origin, CREATED, said("one"), said("two"))
        await append(log, fork, forked, expected=2)
        read = log.read

        async def slowly(
            session_id: SessionId,
            *,
            after: int = 0,
            until: int | None = None,
            types: Types = ALL_TYPES,
        ) -> AsyncGenerator[tuple[Recorded, ...], None]:
            await asyncio.sleep(SLOW_SECONDS)
            async with aclosing(read(session_id, after=after, until=until, types=types)) as batches:
                async for batch in batches:
                    yield batch

        with monkeypatch.context() as slow:
            slow.setattr(log, "read", slowly)
            await Projector(log, read_models, [SAMPLE], SystemClock()).caught_up()

        await check_stored(log, read_models, fork)


async def test_many_rows_are_stored_in_statements_of_bounded_size(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement has ten seconds; forks bring all rows of their origins at once."""
    monkeypatch.setattr(projection_batch, "PUT_AT_ONCE", 2)
    async with stores(database) as (log, read_models):
        await append(log, SESSIONS[0], CREATED, *(said(str(nth)) for nth in range(5)))
        await run_sql(database, NOTE_PUTS)

        await Projector(log, read_models, [SAMPLE], SystemClock()).caught_up()

        puts = await run_sql(database, "select rows from navi.put order by rows")
        assert [row["rows"] for row in puts] == [1, 2, 2]
        await check_stored(log, read_models, SESSIONS[0])


async def test_long_messages_are_stored_a_megabyte_a_statement(database: str) -> None:
    """Their words are indexed as they are stored: 200 of them took a statement all of its ten seconds."""
    rows = tuple(
        Put(key=key, row=msgspec.json.encode({"role": "user", "content": distinct_words(key)}))
        for key in range(1, 26)
    )
    changes = SessionChanges(
        session_id=SESSIONS[0], owner=LOCAL_OWNER, seq=25, state=b"{}", changes=rows
    )
    await run_sql(database, NOTE_PUTS)
    async with stores(database) as (_, read_models):
        build = await read_models.open_build("messages", 1)

        async with read_models.begin("messages", build.number, 0) as batch:
            assert batch is not None
            await batch.save([changes], parked=(), position=25)

    puts = await run_sql(database, "select rows, bytes from navi.put order by rows")
    assert [row["rows"] for row in puts] == [5, 10, 10]
    assert max(row["bytes"] for row in puts) <= 1024 * 1024


def distinct_words(nth: int) -> str:
    """As much of a message as is indexed, 100,000 characters, all words of it different."""
    first = nth * 16_666
    return "".join(f"{word:05x} " for word in range(first, first + 16_666))


NOTE_PUTS = """
    create table navi.put (rows bigint, bytes bigint);
    create function navi.note_put() returns trigger language plpgsql as
      $$ begin
        insert into navi.put select count(*), sum(octet_length(row::text)) from new_rows; return null;
      end $$;
    create trigger note_put after insert on navi.read_row referencing new table as new_rows
      for each statement execute function navi.note_put()"""


async def run_sql(dsn: str, statements: str) -> "list[asyncpg.Record]":
    """Run several statements, or one for its rows."""
    connection = await asyncpg.connect(dsn)
    try:
        if statements.startswith("select"):
            return await connection.fetch(statements)
        await connection.execute(statements)
        return []
    finally:
        await connection.close()


async def run_child(dsn: str, failpoint: str, program: str = CHILD) -> int:
    """The exit status of a process that projects; minus the signal that ended it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, dsn, failpoint, cwd=ROOT
    )
    async with asyncio.timeout(60):
        return await process.wait()


async def kill_batch(admin: "asyncpg.Connection[asyncpg.Record]") -> bool:
    """End the connection that holds a checkpoint just now, if one does."""
    rows = await admin.fetch(
        "select pg_terminate_backend(pid) from pg_locks"
        " where relation = 'navi.checkpoint'::regclass and mode = 'RowShareLock'"
    )
    return bool(rows)


async def check_stored(
    log: LogBackend, read_models: ReadModelBackend, session_id: SessionId
) -> None:
    """What is stored is the fold from nothing."""
    replayed = await replay_session(log, SAMPLE, session_id, until=await log.head(session_id))
    stored = await read_models.load("sample", 1, session_id)
    assert stored is not None
    assert (
        stored.seq,
        SAMPLE.decode_state(stored.state),
        tuple(SAMPLE.decode_row(row) for _, row in stored.rows),
    ) == (replayed.seq, replayed.state, replayed.rows)
