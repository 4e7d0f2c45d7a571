"""A transaction on a connection of the pool, and errors in navi's own words."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeAlias

import asyncpg
import asyncpg.pool

from navi.adapters.postgres.connect import (
    ACQUIRE_SECONDS,
    CLOSE_SECONDS,
    CONNECTION_ERRORS,
    Pool,
)
from navi.domain.vocabulary.errors import LogUnavailable

LentConnection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


@contextmanager
def answering(*also: type[Exception]) -> Generator[None, None, None]:
    """Translate the driver's errors; around calls of the driver alone.

    Args:
        also: errors that mean that Postgres is away, beside those of ``CONNECTION_ERRORS``.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    try:
        yield
    except (*CONNECTION_ERRORS, *also) as error:
        # Not the driver's own words, which may quote the address.
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error


@asynccontextmanager
async def transaction(pool: Pool) -> AsyncGenerator[LentConnection, None]:
    """A connection in a transaction, committed when the block ends, rolled back when it raises.

    Raises:
        LogUnavailable: Postgres does not answer; whether a commit took place is then unknown.
    """
    with answering(asyncpg.PostgresError):  # refusing a connection is not answering
        connection = await pool.acquire(timeout=ACQUIRE_SECONDS)
    try:
        block = connection.transaction()
        with answering():
            await block.start()
        try:
            yield connection
        except Exception:
            with answering():
                await block.rollback()
            raise
        with answering():
            await block.commit()
    except BaseException as error:
        # Lost, or cancelled in mid-query: what the connection would answer next is not known.
        if isinstance(error, LogUnavailable) or not isinstance(error, Exception):
            with suppress(asyncpg.InterfaceError):  # the pool has taken a lost one back already
                connection.terminate()
        raise
    finally:
        await pool.release(connection, timeout=CLOSE_SECONDS)
