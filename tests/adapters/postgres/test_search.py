"""A search reads as much of a long log as of a short one, and finds what stands at its beginning."""

import shutil
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.postgres.connect import Connection, open_pool
from navi.adapters.postgres.migrate import default_directory, migrate
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.domain.reading.search import parse_question
from navi.domain.vocabulary.ids import LOCAL_OWNER
from tests.contracts.read_models import A, B, C, changes, listed, said_row, session, store

ERA = 16_384  # rows, as the migration has it
MESSAGES = 30
KNOWN = "analyze navi.read_state"  # as Postgres does by itself, a minute later
FETCHED = "select idx_tup_fetch from pg_stat_xact_user_tables where relname = $1"


@pytest.fixture
async def connection(database: str) -> AsyncGenerator[Connection, None]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
async def read_models(database: str) -> AsyncGenerator[PostgresReadModels, None]:
    async with open_pool(database, size=4) as pool:
        yield PostgresReadModels(pool)


@pytest.fixture
def of_before(tmp_path: Path) -> Path:
    """The migrations as they were before a search knew which messages are the newest."""
    for path in default_directory().glob("*.sql"):
        if path.stem < "0016":
            shutil.copy(path, tmp_path)
    return tmp_path


async def say(read_models: PostgresReadModels, number: int, words: str) -> None:
    """Save the messages of a session."""
    rows = (said_row(key, f"tea {words}") for key in range(MESSAGES))
    await store(read_models, "messages", [changes(session(number), *rows)])


async def long_log(read_models: PostgresReadModels, connection: Connection) -> None:
    """Sessions with thousands of rows of others between them, of which Postgres has no statistics yet.

    They are of different eras.
    """
    await connection.execute("alter table navi.read_row set (autovacuum_enabled = off)")
    for number in range(20):
        await connection.execute("select setval('navi.read_row_place', $1)", 5 + 3 * ERA * number)
        await say(read_models, number, f"alone{number}x")


async def found(connection: Connection, query: str, limit: int) -> tuple[Sequence[int], int]:
    """The sessions of what is found, in order, and how many rows were read for it."""
    async with connection.transaction():
        before = await connection.fetchval(FETCHED, "read_row")
        rows = await connection.fetch(
            "select * from navi.find_said(1, $1, $2::text::tsquery, $3)", LOCAL_OWNER, query, limit
        )
        read = await connection.fetchval(FETCHED, "read_row") - before
    return [int(str(row["session_id"]).replace("-", "")[:12], 16) for row in rows], read


async def test_of_a_common_word_the_newest_messages_are_read_and_no_others(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await long_log(read_models, connection)

    assert await found(connection, "'tea'", MESSAGES) == ([19] * MESSAGES, MESSAGES)
    assert await found(connection, "'te':* & !'alone19x'", MESSAGES + 1) == (
        [18] * MESSAGES + [17],
        2 * MESSAGES,  # of the other sessions among the newest eight eras
    )


async def test_a_rare_word_is_found_wherever_it_stands_and_nothing_else_is_read(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await long_log(read_models, connection)

    for number in (0, 7, 19):
        query = f"'alone{number}x':*"
        assert await found(connection, query, 1000) == ([number] * MESSAGES, MESSAGES)
    assert await found(connection, "'alone'", 1000) == ([], 0)


async def test_a_name_is_found_without_looking_at_the_sessions_that_have_another(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    named = (
        changes(session(n), listing=listed(), state=b'{"name":"Tea and alone%dx"}' % n)
        for n in range(100)
    )
    await store(read_models, "sessions", list(named))
    await connection.execute(KNOWN)

    async with connection.transaction():
        before = await connection.fetchval(FETCHED, "read_state")
        rows = await connection.fetch(
            "select * from navi.find_named(1, $1, $2::text::tsquery, 9)", LOCAL_OWNER, "'alone7x'"
        )
        read = await connection.fetchval(FETCHED, "read_state") - before

    assert ([str(row["session_id"]) for row in rows], read) == ([session(7)], 1)


async def test_what_an_older_navi_stored_is_found_in_the_order_of_its_sessions(
    empty_database: str, of_before: Path
) -> None:
    await migrate(empty_database, directory=of_before)
    tea = parse_question("tea")
    assert tea is not None
    async with open_pool(empty_database, size=4) as pool:
        read_models = PostgresReadModels(pool)
        old = [changes(one, said_row(1, "tea"), said_row(2, "teapot")) for one in (B, A)]
        await store(read_models, "messages", old)
        state = b'{"name":"Tea of before"}'
        await store(read_models, "sessions", [changes(A, listing=listed(), state=state)])

        await migrate(empty_database)
        await store(read_models, "messages", [changes(C, said_row(1, "tea"), seq=2)])

        said = await read_models.find_said(1, owner=LOCAL_OWNER, question=tea)
        named = await read_models.find_named(1, owner=LOCAL_OWNER, question=tea)

    places = [(row.session_id, row.seq) for row in said]
    assert places == [(C, 1), (B, 2), (B, 1), (A, 2), (A, 1)]
    assert [(row.session_id, row.name) for row in named] == [(A, "Tea of before")]


async def test_words_that_are_too_long_for_the_index_keep_no_message_from_being_found(
    read_models: PostgresReadModels,
) -> None:
    tea = parse_question("tea")
    assert tea is not None
    rows = [said_row(key, f"tea {'x' * (2030 + 2 * key)}") for key in range(20)]

    await store(read_models, "messages", [changes(A, *rows)])

    assert len(await read_models.find_said(1, owner=LOCAL_OWNER, question=tea)) == 20
