"""Make a database ready for a dump of navi's."""

import asyncpg

from navi.adapters.postgres.connect import CONNECTION_ERRORS, connect
from navi.adapters.postgres.rights import rights_on
from navi.domain.vocabulary.errors import LogUnavailable, StoreRefused

_IS_EMPTY = "select to_regclass('navi.migration') is null"
_VECTOR_IN = """
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'vector'"""
_FINDS_VECTOR = "select to_regtype('vector') is not null"
_MAKE_SCHEMA = "create schema if not exists navi"


async def is_empty(dsn: str) -> bool:
    """Whether there is nothing of navi's in the database.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        return bool(await connection.fetchval(_IS_EMPTY))
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()


async def vector_schema(dsn: str) -> str:
    """The schema that pgvector's types are in: public, or navi's own where the user is called navi.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        return str(await connection.fetchval(_VECTOR_IN) or "public")
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()


async def prepare(dsn: str, *, vector_in: str) -> None:
    """Make navi's schema, and add what a dump of it refers to.

    Args:
        vector_in: the schema that pgvector was in.

    Raises:
        StoreRefused: a right or pgvector is missing.
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        missing = (await rights_on(connection)).missing
        if missing is not None:
            raise StoreRefused(missing)
        await connection.execute(_MAKE_SCHEMA)
        there = await connection.fetchval(_VECTOR_IN)
        schema = '"' + vector_in.replace('"', '""') + '"'
        if there != vector_in:
            # Of whoever set the server up that was backed up, such as "extensions": here nobody has made it.
            await connection.execute(f"create schema if not exists {schema}")
        if there is None:
            await connection.execute(f"create extension vector schema {schema}")
        elif there != vector_in:
            await connection.execute(f"alter extension vector set schema {schema}")
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    except asyncpg.PostgresError as error:
        raise StoreRefused(f"the database cannot be made ready: {error}") from error
    finally:
        connection.terminate()


async def find_vector(dsn: str) -> None:
    """Move pgvector to where this user finds it: a dump has it where its own user did.

    Raises:
        StoreRefused: it may not be moved.
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        if not await connection.fetchval(_FINDS_VECTOR):
            await connection.execute("alter extension vector set schema public")
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    except asyncpg.PostgresError as error:
        raise StoreRefused(f"pgvector cannot be moved to the schema public: {error}") from error
    finally:
        connection.terminate()
