"""What is missing for navi on a Postgres of one's own is told in a line, before anything is made there."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from msgspec.structs import replace

from navi.adapters.postgres.examine import reason_of
from navi.adapters.postgres.migrate import migrate
from navi.adapters.postgres.reader_role import may_open_readers
from navi.adapters.postgres.rights import Rights
from navi.domain.vocabulary.errors import LogUnavailable, StoreRefused

ALL = Rights(
    name="navi",
    database="navi",
    superuser=False,
    may_create=True,
    owner=None,
    owns=True,
    read_only=False,
    vector_in=None,
    sees_vector=False,
    vector_there=True,
    vector_trusted=True,
    major=17,
)
_numbers = count(1)


@pytest.mark.parametrize(
    ("rights", "words"),
    [
        (ALL, None),
        (replace(ALL, superuser=True, vector_trusted=False), None),
        (replace(ALL, vector_there=False), "install it there (Debian: postgresql-17-pgvector"),
        (replace(ALL, may_create=False), "grant create on database navi to navi"),
        (replace(ALL, owner="bob", owns=False), "grant bob to navi"),
        (
            replace(ALL, vector_trusted=False),
            "connected to the database navi: create extension vector",
        ),
        (
            replace(ALL, vector_in="extensions"),
            'alter role navi in database navi set search_path = "$user", public, extensions',
        ),
        (replace(ALL, vector_in="extensions", sees_vector=True), None),
        (replace(ALL, read_only=True), "can only be read"),
        (replace(ALL, may_create=False, name="A b"), 'grant create on database navi to "A b"'),
    ],
    ids=[
        "nothing",
        "superuser",
        "pgvector",
        "create",
        "schema",
        "extension",
        "elsewhere",
        "found there",
        "standby",
        "quoted",
    ],
)
def test_what_is_missing_is_a_statement_that_helps(rights: Rights, words: str | None) -> None:
    missing = rights.missing

    assert missing is None if words is None else missing is not None and words in missing


@asynccontextmanager
async def user_of(dsn: str) -> AsyncGenerator[str, None]:
    """The DSN of the same database for a new user who has no rights in it."""
    name = f"navi_stranger_{os.getpid()}_{next(_numbers)}"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"create role {name} login")
        parts = urlsplit(dsn)
        host = parse_qs(parts.query)["host"][0]
        yield f"postgresql://{name}@{parts.path}?host={host}&port=5432"
        await connection.execute(f"drop owned by {name}; drop role {name}")
    finally:
        await connection.close()


async def test_who_may_create_nothing_is_told_before_anything_is_made(empty_database: str) -> None:
    async with user_of(empty_database) as stranger:
        with pytest.raises(StoreRefused) as refusal:
            await migrate(stranger)

    connection = await asyncpg.connect(empty_database)
    try:
        made = await connection.fetchval("select to_regnamespace('navi') is not null")
    finally:
        await connection.close()
    assert str(refusal.value).startswith("nothing was migrated: navi_stranger_")
    assert "grant create on database navi_test_" in str(refusal.value)
    assert made is False


async def test_who_may_create_where_pgvector_is_needs_no_more(empty_database: str) -> None:
    async with user_of(empty_database) as user:
        name, database = urlsplit(user).username, urlsplit(user).path[1:]
        connection = await asyncpg.connect(empty_database)
        try:
            await connection.execute(
                f"create extension vector; grant create on database {database} to {name}"
            )
        finally:
            await connection.close()

        assert len(await migrate(user)) > 1
        # But not that reads of people are bounded by row-level security.
        assert await may_open_readers(user) is False
        assert await may_open_readers(empty_database) is True


async def test_a_pgvector_that_is_not_found_is_told_before_anything_is_made(
    empty_database: str,
) -> None:
    async with user_of(empty_database) as user:
        name, database = urlsplit(user).username, urlsplit(user).path[1:]
        connection = await asyncpg.connect(empty_database)
        try:
            await connection.execute(
                "create schema extensions; create extension vector schema extensions;"
                f"grant create on database {database} to {name}"
            )
            with pytest.raises(StoreRefused) as refusal:
                await migrate(user)
            made = await connection.fetchval("select to_regnamespace('navi') is not null")
            remedy = str(refusal.value).partition("schema extensions: ")[2]
            await connection.execute(remedy)
        finally:
            await connection.close()

        assert made is False
        assert len(await migrate(user)) > 1


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            asyncpg.ClientConfigurationError('root certificate file "/r.crt" does not exist'),
            'root certificate file "/r.crt" does not exist',
        ),
        (asyncpg.ClientConfigurationError("invalid DSN: pgsql://me:secret@h"), "not understood"),
        (FileNotFoundError(2, "No such file or directory"), "sslrootcert"),
        (asyncpg.TooManyConnectionsError("too many"), "no connection left"),
    ],
    ids=["certificate", "address", "file", "connections"],
)
def test_what_stands_in_the_way_of_a_connection_is_told(cause: Exception, words: str) -> None:
    error = LogUnavailable("Postgres: cannot connect")
    error.__cause__ = cause

    text = reason_of(error).text

    assert words in text
    assert "secret" not in text


def test_a_server_without_the_tls_that_is_asked_for_is_told_with_the_way_out() -> None:
    error = LogUnavailable("Postgres: cannot connect (ConnectionError)")
    error.__cause__ = ConnectionError('PostgreSQL server at "db:5432" rejected SSL upgrade')

    reason = reason_of(error)

    assert (reason.is_final, "sslmode=prefer" in reason.text) == (True, True)
