"""A search reads as much of a long log as of a short one, and finds what stands at its beginning."""

import shutil
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from navi.adapters.postgres.connect import Connection, open_pool
from navi.adapters.postgres.migrate import default_directory, migrate
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.domain.reading.search import parse_question
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner, SessionId
from tests.contracts.read_models import A, B, C, D, changes, listed, said_row, session, store

ERA, ERA_OF_NAMES = 16_384, 512  # rows and sessions, as the migrations have it
MESSAGES = 30
SESSIONS = 5  # of an era
ADA = Owner("ada")
LOOKS = "select idx_scan from pg_stat_xact_user_tables where relname = $1"
READ = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relname = $1"
# As navis saved before a search knew which messages are the newest, and may still beside a newer one.
BUILD_OF_BEFORE = """
    insert into navi.build (projection, number, version, state)
    values ('messages', 1, 1, 'live'), ('sessions', 1, 1, 'live') on conflict do nothing"""
NAMED_BEFORE = """
    insert into navi.read_state
      (projection, version, session_id, owner, seq, state, pinned, last_active, unfinished)
    select p, 1, $1::uuid, 'local', 2, json_build_object('name', $2::text),
      case p when 'sessions' then false end, case p when 'sessions' then now() end,
      case p when 'sessions' then false end
    from unnest(array['messages', 'sessions']) as p"""
SAID_BEFORE = """
    insert into navi.read_row (projection, version, session_id, key, row)
    values ('messages', 1, $1::uuid, $2, $3::json)"""


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


async def say(
    read_models: PostgresReadModels, number: int, words: str, owner: Owner = LOCAL_OWNER
) -> None:
    """Save the messages of a session."""
    rows = (said_row(key, f"tea {words}") for key in range(MESSAGES))
    await store(read_models, "messages", [changes(session(number), *rows, owner=owner)])


async def name(
    read_models: PostgresReadModels, *numbers: int, minutes: int = 0, owner: Owner = LOCAL_OWNER
) -> None:
    """Save the names of sessions, of which each was active a minute after the one before."""
    named = (
        changes(
            session(number),
            owner=owner,
            listing=listed(minutes=minutes + nth),
            state=b'{"name":"Tea and alone%dx"}' % number,
        )
        for nth, number in enumerate(numbers)
    )
    await store(read_models, "sessions", list(named))


async def long_log(read_models: PostgresReadModels, connection: Connection) -> None:
    """Sessions with thousands of rows of others between them, of which Postgres has no statistics yet.

    They are of different eras.
    """
    await connection.execute("alter table navi.read_row set (autovacuum_enabled = off)")
    for number in range(20):
        await connection.execute("select setval('navi.read_row_nth', $1)", 5 + 3 * ERA * number)
        await say(read_models, number, f"alone{number}x")


async def many_names(read_models: PostgresReadModels, connection: Connection) -> None:
    """Names in different eras, likewise; the later ones are of sessions that were active later."""
    await connection.execute("alter table navi.read_state set (autovacuum_enabled = off)")
    for era in range(20):
        await connection.execute(
            "select setval('navi.read_state_nth', $1)", 1 + 3 * ERA_OF_NAMES * era
        )
        first = SESSIONS * era
        await name(read_models, *range(first, first + SESSIONS), minutes=first)


async def found(
    connection: Connection, query: str, limit: int, owner: Owner = LOCAL_OWNER
) -> tuple[Sequence[int], int]:
    """The sessions of the messages that are found, in order, and how many rows were read for it."""
    return await _found(connection, "find_said", "read_row", query, limit, owner)


async def found_named(
    connection: Connection, query: str, limit: int, owner: Owner = LOCAL_OWNER
) -> tuple[Sequence[int], int]:
    """The sessions whose name is found, in order, and how many states were read for it."""
    return await _found(connection, "find_named", "read_state", query, limit, owner)


async def found_named_in(connection: Connection, query: str) -> tuple[Sequence[int], int]:
    """The sessions whose name is found, in order, and how often an index was asked for it."""
    return await _found(
        connection, "find_named", "read_state", query, 9, LOCAL_OWNER, counted=LOOKS
    )


async def _found(
    connection: Connection,
    function: str,
    table: str,
    query: str,
    limit: int,
    owner: Owner,
    *,
    counted: str = READ,
) -> tuple[Sequence[int], int]:
    async with connection.transaction():
        before = await connection.fetchval(counted, table)
        rows = await connection.fetch(
            f"select * from navi.{function}(1, $1, $2::text::tsquery, $3)",  # noqa: S608 - of two
            owner,
            query,
            limit,
        )
        count = await connection.fetchval(counted, table) - before
    return [int(str(row["session_id"]).replace("-", "")[:12], 16) for row in rows], count


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


async def test_what_others_have_said_is_not_read(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await say(read_models, 100, "alone100x", ADA)
    await long_log(read_models, connection)

    assert await found(connection, "'tea'", 1000, ADA) == ([100] * MESSAGES, MESSAGES)
    assert await found(connection, "'alone3x'", 1000, ADA) == ([], 0)


async def test_of_a_word_that_all_names_have_the_sessions_that_were_active_last_are_read(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await many_names(read_models, connection)

    assert await found_named(connection, "'tea'", 5) == ([99, 98, 97, 96, 95], 5)
    assert await found_named(connection, "'te':*", 6) == ([99, 98, 97, 96, 95, 94], 10)
    assert (await found_named(connection, "'tea'", 1000))[1] == 100


async def test_a_name_is_found_wherever_it_stands_and_no_other_is_read(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await many_names(read_models, connection)

    for number in (0, 7, 99):
        assert await found_named(connection, f"'alone{number}x'", 9) == ([number], 1)
    assert await found_named(connection, "'alone'", 9) == ([], 0)


async def test_names_of_others_are_not_read(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await name(read_models, 200, owner=ADA)
    await many_names(read_models, connection)

    assert await found_named(connection, "'tea'", 9, ADA) == ([200], 1)
    assert await found_named(connection, "'alone7x'", 9, ADA) == ([], 0)


async def test_a_session_that_is_active_again_is_among_the_newest_and_takes_one_place_there(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await many_names(read_models, connection)

    for minutes in range(1000, 1100):
        await name(read_models, 2, minutes=minutes)

    assert await found_named(connection, "'tea'", 2) == ([2, 99], 6)
    taken = await connection.fetchval("select last_value from navi.read_state_nth")
    assert taken == 1 + 3 * ERA_OF_NAMES * 19 + SESSIONS + 1


async def test_a_session_that_is_only_given_another_name_stays_behind_those_that_were_active_later(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await many_names(read_models, connection)
    newest = 1 + 3 * ERA_OF_NAMES * 20
    await connection.execute("select setval('navi.read_state_nth', $1)", newest)

    await name(read_models, 2, minutes=2)

    assert await found_named(connection, "'tea'", 1) == ([99], SESSIONS)
    assert await found_named(connection, "'alone2x'", 9) == ([2], 1)
    assert await connection.fetchval("select last_value from navi.read_state_nth") == newest


async def test_however_often_sessions_were_active_again_a_search_asks_so_many_eras(
    read_models: PostgresReadModels, connection: Connection
) -> None:
    await many_names(read_models, connection)
    in_rotation = range(SESSIONS * 20, SESSIONS * 20 + ERA_OF_NAMES + 20)  # more than an era holds
    await name(read_models, 2000, owner=ADA)
    for years in (1, 2):
        await connection.execute(
            "select setval('navi.read_state_nth', $1)", 70_000 * ERA_OF_NAMES * years
        )
        await name(read_models, *in_rotation, minutes=1000 * years)

    for number in (0, 99, in_rotation[0], in_rotation[-1]):
        assert await found_named_in(connection, f"'alone{number}x'") == ([number], 65)
    assert await found_named(connection, "'alone7x'", 9) == ([7], 1)
    everything = [*reversed(in_rotation), *reversed(range(SESSIONS * 20))]
    assert (await found_named(connection, "'te':*", 1000))[0] == everything
    assert (await found_named(connection, "'te':*", len(in_rotation) + 3))[0] == everything[:-97]


async def test_what_older_navis_stored_and_store_beside_is_found_behind_the_rest(
    empty_database: str, of_before: Path
) -> None:
    await migrate(empty_database, directory=of_before)
    tea = parse_question("tea")
    assert tea is not None

    async def store_as_before(connection: Connection, session_id: SessionId) -> None:
        await connection.execute(NAMED_BEFORE, session_id, "Tea of before")
        for key, words in ((1, "tea"), (2, "teapot")):
            row: Any = said_row(key, words).row
            await connection.execute(SAID_BEFORE, session_id, key, row.decode())

    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute(BUILD_OF_BEFORE)
        for one in (B, A):
            await store_as_before(connection, one)
        await migrate(empty_database)
        await store_as_before(connection, C)
    finally:
        await connection.close()
    async with open_pool(empty_database, size=4) as pool:
        read_models = PostgresReadModels(pool)
        await store(read_models, "messages", [changes(D, said_row(1, "tea"), seq=2)])
        await name(read_models, 4)

        said = await read_models.find_said(1, owner=LOCAL_OWNER, question=tea)
        named = await read_models.find_named(1, owner=LOCAL_OWNER, question=tea)
        await name(read_models, 3)
        anew = await read_models.find_named(1, owner=LOCAL_OWNER, question=tea)

    places = [(row.session_id, row.seq) for row in said]
    assert places == [(D, 1), (C, 2), (C, 1), (B, 2), (B, 1), (A, 2), (A, 1)]
    assert {row.session_id for row in named} == {A, B, C, D}
    assert {row.name for row in anew if row.session_id == C} == {"Tea and alone3x"}


async def test_words_that_are_too_long_for_the_index_keep_no_message_from_being_found(
    read_models: PostgresReadModels,
) -> None:
    tea = parse_question("tea")
    assert tea is not None
    rows = [said_row(key, f"tea {'x' * (2030 + 2 * key)}") for key in range(20)]

    await store(read_models, "messages", [changes(A, *rows)])

    assert len(await read_models.find_said(1, owner=LOCAL_OWNER, question=tea)) == 20
