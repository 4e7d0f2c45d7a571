import asyncio
import shutil
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.migrate import default_directory, migrate
from navi.adapters.postgres.nodes import LEASE_SECONDS as NODE_LEASE_SECONDS
from navi.adapters.postgres.read_models import reads, search
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.read_models import StoredState
from tests.contracts.read_models import (
    A,
    B,
    C,
    D,
    E,
    ReadModelsContract,
    changes,
    listed,
    put,
    save,
    session,
    store,
)
from tests.support.servers import PostgresServer


@pytest.fixture
async def on_postgres(database: str) -> AsyncGenerator[ReadModelBackend, None]:
    async with open_pool(database, size=8) as pool:
        yield PostgresReadModels(pool)


class TestPostgresReadModels(ReadModelsContract):
    @pytest.fixture
    def read_models(self, on_postgres: ReadModelBackend) -> ReadModelBackend:
        return on_postgres

    @pytest.fixture
    async def elsewhere(
        self, read_models: ReadModelBackend, database: str
    ) -> AsyncGenerator[ReadModelBackend, None]:
        async with open_pool(database, size=8) as pool:
            yield PostgresReadModels(pool)


async def test_a_process_frozen_in_mid_batch_holds_up_nobody_for_long(
    database: str, on_postgres: ReadModelBackend
) -> None:
    async def freeze_in_mid_batch() -> None:
        async with on_postgres.begin("sample", 1, 0) as batch:
            assert batch is not None
            # The loop of this thread stands still meanwhile, as that of a frozen process does.
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(asyncio.run, until_free()).result()

    async def until_free() -> None:
        async with open_pool(database, size=2) as pool, asyncio.timeout(NODE_LEASE_SECONDS / 2):
            while not await is_free(PostgresReadModels(pool)):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    async def is_free(elsewhere: ReadModelBackend) -> bool:
        async with elsewhere.begin("sample", 1, 0) as batch:
            return batch is not None

    await save(on_postgres, changes(A, put(1)), position=1)

    # Its own commit finds that it was given up.
    with pytest.raises(LogUnavailable):
        await freeze_in_mid_batch()


async def test_a_batch_whose_connection_is_killed_leaves_nothing(
    database: str, on_postgres: ReadModelBackend
) -> None:
    async def use_a_killed_connection() -> None:
        async with on_postgres.begin("sample", 1, 0) as batch:
            assert batch is not None
            await batch.save([changes(A, put(2), seq=2)], parked=(), position=2)
            await kill_others(database)

    await save(on_postgres, changes(A, put(1)), position=1)
    before = await on_postgres.load("sample", 1, A)

    with pytest.raises(LogUnavailable):
        await use_a_killed_connection()

    assert await on_postgres.load("sample", 1, A) == before
    await save(on_postgres, changes(A, put(2), seq=2), position=2)


async def test_without_postgres_every_call_says_so(
    postgres_server: PostgresServer, database: str, on_postgres: ReadModelBackend
) -> None:
    await postgres_server.drop_database(database)

    with pytest.raises(LogUnavailable):
        await save(on_postgres)
    with pytest.raises(LogUnavailable):
        await on_postgres.load("sample", 1, A)
    with pytest.raises(LogUnavailable):
        await on_postgres.rebuild("sample", 1)


async def kill_others(dsn: str) -> None:
    """End every other connection to the database."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid, 1000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()


ADA = Owner("ada")
STATES_READ = """
    select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = 'read_state'"""
MANY = 300  # sessions, of which Postgres has no statistics yet


async def stored_and_read(
    database: str, read_models: ReadModelBackend, statement: str, *values: object
) -> tuple[int, int]:
    """Save many sessions of two owners, ask for some: how many rows come, and how many states are read."""
    number = (await read_models.open_build("conversation", 1)).number
    connection = await asyncpg.connect(database)
    try:
        for table in ("read_state", "read_row"):
            await connection.execute(f"alter table navi.{table} set (autovacuum_enabled = off)")
        async with read_models.begin("conversation", number, 0) as batch:
            assert batch is not None
            many = (
                changes(
                    session(nth),
                    put(1, b'{"mark":"m%d"}' % nth),
                    owner=(LOCAL_OWNER, ADA)[nth % 2],
                    listing=listed(minutes=nth),
                )
                for nth in range(MANY)
            )
            await batch.save(list(many), parked=(), position=9)
        async with connection.transaction():
            rows = await connection.fetch(statement, *values)
            return len(rows), await connection.fetchval(STATES_READ)
    finally:
        await connection.close()


async def test_a_page_of_everybodys_sessions_reads_a_page_of_each_owners(
    database: str, on_postgres: ReadModelBackend
) -> None:
    page = ("conversation", 1, None, 5)

    rows, read = await stored_and_read(database, on_postgres, reads._LIST_OF_ALL, *page)

    assert rows == 5
    assert read < 20  # of 300: five of each owner, and a few from which the owners are known


async def test_of_the_sessions_that_have_come_by_a_mark_no_others_are_read(
    database: str, on_postgres: ReadModelBackend
) -> None:
    marks = (1, LOCAL_OWNER, ["m2", "m3", "m4"])

    assert await stored_and_read(database, on_postgres, reads._FIND_MARKS, *marks) == (2, 3)


async def test_names_are_read_of_the_sessions_that_are_asked_for_and_no_others(
    database: str, on_postgres: ReadModelBackend
) -> None:
    await store(
        on_postgres, "sessions", [changes(session(nth), listing=listed()) for nth in range(MANY)]
    )

    asked = (1, LOCAL_OWNER, [session(nth) for nth in range(7)])

    assert await stored_and_read(database, on_postgres, search._NAMES, *asked) == (7, 7)


async def test_of_many_sessions_that_owe_what_follows_a_turn_those_are_read_that_are_asked_for(
    database: str,
) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(
            "insert into navi.build (projection, number, version, state) values ('sessions', 1, 1, 'live')"
        )
        await connection.execute(
            "insert into navi.read_state (projection, version, session_id, owner, seq, state, pinned,"
            " last_active, unfinished, owing) select 'sessions', 1, gen_random_uuid(), 'somebody', 3, '{}',"
            " false, now(), false, true from generate_series(1, 2000)"
        )
        async with connection.transaction():
            before = await connection.fetchval(STATES_READ)
            owing = await connection.fetch(reads._OWING, "sessions", 1, None, 100)
            read = await connection.fetchval(STATES_READ) - before
    finally:
        await connection.close()

    assert (len(owing), read) == (100, 100)


@pytest.fixture
def before_owing(tmp_path: Path) -> Path:
    """The migrations as they were before sessions that owe what follows a turn were told apart."""
    for path in default_directory().glob("*.sql"):
        if path.name < "0022":
            shutil.copy(path, tmp_path)
    return tmp_path


async def test_of_what_an_older_navi_stored_sessions_that_only_owe_what_follows_a_turn_are_told_apart(
    empty_database: str, before_owing: Path
) -> None:
    await migrate(empty_database, directory=before_owing)
    connection = await asyncpg.connect(empty_database)
    states = {
        A: '{"name": "\\u0000", "turn": null, "waiting": [], "asides": [], "follow_up": {}}',
        B: '{"turn": {"id": "1"}, "waiting": [], "asides": [], "follow_up": null}',
        C: '{"turn": null, "waiting": [{"seq": 2}], "asides": [], "follow_up": {}}',
        D: '{"turn": null, "waiting": [], "follow_up": {}}',  # older still: it had no such calls
        E: '{"name": "\\ud800", "turn": null, "waiting": [], "asides": []}',  # not for Postgres
    }
    try:
        await connection.execute(
            "insert into navi.build (projection, number, version, state) values ('sessions', 1, 1, 'live')"
        )
        for session_id, state in states.items():
            await connection.execute(
                "insert into navi.read_state (projection, version, session_id, owner, seq, state,"
                " pinned, last_active, unfinished)"
                " values ('sessions', 1, $1, 'somebody', 3, $2, false, now(), true)",
                session_id,
                state,
            )
    finally:
        await connection.close()

    await migrate(empty_database)

    async with open_pool(empty_database, size=2) as pool:
        read_models = PostgresReadModels(pool)
        unfinished = await read_models.unfinished("sessions", 1, after=None, limit=9)
        owing = await read_models.owing("sessions", 1, after=None, limit=9)
    assert [session_id for session_id, _ in unfinished] == [B, C, D, E]
    assert [session_id for session_id, _ in owing] == [A]


@pytest.fixture
def before_builds(tmp_path: Path) -> Path:
    """The migrations as they were before read models were stored by build."""
    for path in default_directory().glob("000[1-5]_*.sql"):
        shutil.copy(path, tmp_path)
    return tmp_path


async def test_what_an_older_navi_stored_serves_on_and_what_left_out_sessions_begins_again(
    empty_database: str, before_builds: Path
) -> None:
    await migrate(empty_database, directory=before_builds)
    connection = await asyncpg.connect(empty_database)
    try:
        for name in ("sample", "broken"):
            await connection.execute("insert into navi.checkpoint values ($1, 1, 0, 5)", name)
            await connection.execute(
                "insert into navi.read_state (projection, version, session_id, owner, seq, state)"
                " values ($1, 1, $2, 'somebody', 3, '{}')",
                name,
                A,
            )
        await connection.execute("insert into navi.parked values ('broken', 1, $1, 4, 'no')", B)
    finally:
        await connection.close()

    await migrate(empty_database)

    async with open_pool(empty_database, size=2) as pool:
        read_models = PostgresReadModels(pool)
        (build,) = await read_models.builds(["sample", "broken"])
        assert (build.projection, build.state, build.positions) == ("sample", "live", {0: 5})
        assert await read_models.load("sample", 1, A) == StoredState(seq=3, state=b"{}")
        assert (await read_models.open_build("broken", 1)).positions == {}
        assert await read_models.load("broken", 1, A) is None
