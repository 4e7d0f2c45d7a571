"""Connect to Postgres: pools, codecs, deadlines, which errors mean unavailable."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import asyncpg
import structlog
from asyncpg.pool import PoolConnectionProxy
from msgspec import Struct

from navi.domain.vocabulary.errors import LogUnavailable, StoreRefused
from navi.domain.vocabulary.ids import Owner

log = structlog.get_logger()

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


class OwnerPool(Struct, frozen=True):
    """Connections of ``reader_role`` on which a read finds the rows of one owner, and no others."""

    pool: Pool
    owner: Owner


ReadPool: TypeAlias = "Pool | OwnerPool"

CONNECT_SECONDS = 3.0
ACQUIRE_SECONDS = 3.0
QUERY_SECONDS = 10.0
READ_SECONDS = 4.0  # for a read, connecting and repeats included: somebody waits for the answer
CLOSE_SECONDS = 2.0
# In a transaction without a statement. A process that is frozen or cut off there holds locks that other
# nodes wait for; they have to be free well before its turns are taken over.
IDLE_SECONDS = 3.0
# Whoever holds a lock and vanishes with its host says no goodbye: the server asks, and gives the lock back after 11 s.
# Its own system would ask after two hours. Unix sockets have no need of it and pass it over.
_KEEPALIVES = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}
FIRST_PAUSE = 0.02  # seconds before a read is repeated, doubled each time
LONGEST_PAUSE = 0.5
LEAST_SECONDS = 0.05  # a deadline that has passed still has to be one
OLDEST_SERVER = 15  # major version: MERGE, and NULLS NOT DISTINCT for what stands beside the log

# After a killed backend asyncpg raises InternalClientError, or AttributeError from its own state, as
# well as what one would expect; asked again on a new connection, all of them are the same thing.
CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    OSError,  # TimeoutError and ConnectionError are OSErrors
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,  # after a failover; a managed server with a full disk
    asyncpg.SerializationError,  # as the next one: rolled back, and right when asked again
    asyncpg.DeadlockDetectedError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    AttributeError,
)


class RoleNotTaken(asyncpg.InterfaceError):
    """A connection acts as another role than it was opened for: something in between dropped that."""


async def connect(
    dsn: str,
    *,
    query_seconds: float = QUERY_SECONDS,
    planner: Mapping[str, str] = MappingProxyType({}),
) -> Connection:
    """A connection of its own; the caller ends it with ``terminate``.

    Args:
        planner: server settings beside the usual ones.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    try:
        connection: Connection = await asyncpg.connect(
            dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=query_seconds,
            server_settings={**_server_settings(query_seconds), **planner},
        )
    except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
        raise LogUnavailable(_describe("cannot connect", error)) from error
    try:
        await _prepare(connection)
    except CONNECTION_ERRORS as error:
        connection.terminate()
        raise LogUnavailable(_describe("cannot connect", error)) from error
    except BaseException:
        connection.terminate()
        raise
    return connection


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    size: int,
    query_seconds: float = QUERY_SECONDS,
    planner: Mapping[str, str] = MappingProxyType({}),
    role: str | None = None,
) -> AsyncGenerator[Pool, None]:
    """A pool of at most ``size`` connections, gone when the block ends, busy or not.

    Args:
        planner: server settings beside the usual ones.
        role: what they act as; None for the user of ``dsn``.

    Raises:
        LogUnavailable: Postgres does not answer, or, caused by `RoleNotTaken`, not as that role.
    """
    acting = {} if role is None else {"role": role}

    async def prepare(connection: Connection) -> None:
        await _prepare(connection)
        # A pooler in between may drop it: then each statement would act as the user of the address.
        if role is not None and await connection.fetchval("select current_user") != role:
            raise RoleNotTaken(role)

    try:
        pool: Pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size,
            init=prepare,
            reset=_leave,
            timeout=CONNECT_SECONDS,
            command_timeout=query_seconds,
            server_settings={**_server_settings(query_seconds), **planner, **acting},
        )
    except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
        raise LogUnavailable(_describe("cannot connect", error)) from error
    try:
        yield pool
    finally:
        # Closing waits for what is lent out, and on a dead link for ever.
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()
        except CONNECTION_ERRORS:
            pool.terminate()
        except BaseException:
            pool.terminate()
            raise


async def fetch(
    reads: ReadPool, statement: str, *values: Any, seconds: float = READ_SECONDS
) -> Sequence[asyncpg.Record]:
    """The rows of a read, tried again on another connection where one turns out to be dead.

    A restart leaves every idle connection dead, to be found one by one. What Postgres refuses for the
    moment, such as a write on a full disk, is tried again as well.

    Args:
        seconds: for all of it.

    Raises:
        LogUnavailable: Postgres does not answer, or no connection became free in time.
    """
    pool, owner = (reads.pool, reads.owner) if isinstance(reads, OwnerPool) else (reads, None)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = 0.0  # where an idle connection was dead the next one answers
    while True:
        try:
            connection = await pool.acquire(timeout=max(LEAST_SECONDS, deadline - loop.time()))
        except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
            raise LogUnavailable(_describe("no connection", error)) from error
        try:
            left = max(LEAST_SECONDS, deadline - loop.time())
            if owner is not None:
                await connection.execute(_as_owner(owner), timeout=left)
            rows = await connection.fetch(statement, *values, timeout=left)
            if owner is not None:
                await connection.execute("commit", timeout=left)
        except TimeoutError as error:
            await _discard(pool, connection)
            raise LogUnavailable(_describe("no answer", error)) from error
        except CONNECTION_ERRORS as error:
            await _discard(pool, connection)
            if loop.time() + pause > deadline:
                raise LogUnavailable(_describe("connection lost", error)) from error
            # Each try is another process that Postgres starts.
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE) or FIRST_PAUSE
        except BaseException:
            # Cancelled in mid-query: what the connection would answer next is not known.
            await _discard(pool, connection)
            raise
        else:
            try:
                await pool.release(connection, timeout=CLOSE_SECONDS)
            except CONNECTION_ERRORS:
                log.debug("connection_lost_after_use")  # the rows are good all the same
            return rows


def _as_owner(owner: Owner) -> str:
    """Begins a transaction in which the policies show the rows of ``owner``.

    One message for both, which cannot have parameters: the id is quoted.
    """
    quoted = owner.replace("'", "''")
    return f"begin read only; select set_config('navi.owner', '{quoted}', true)"


async def check_server(connection: Connection, *, allow_unsafe_durability: bool) -> None:
    """Check that the server's settings make commits durable.

    Raises:
        StoreRefused: it is too old, or runs with ``fsync = off`` and that is not allowed.
    """
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise StoreRefused(f"Postgres {version.major} is too old: {OLDEST_SERVER} or newer")
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        if await connection.fetchval("select current_setting($1)", setting) != "off":
            continue
        if setting == "fsync" and not allow_unsafe_durability:
            raise StoreRefused("Postgres runs with fsync = off: a power cut would lose the log")
        log.warning("postgres_not_durable", setting=setting, value="off")


async def _discard(pool: Pool, connection: "PoolConnectionProxy[asyncpg.Record]") -> None:
    """Discard a broken connection, so that the pool opens another."""
    # A connection that broke has left the pool by itself, and its proxy then refuses every call.
    with suppress(asyncpg.InterfaceError):
        connection.terminate()  # a stalled link would hold an orderly release
        await pool.release(connection, timeout=CLOSE_SECONDS)


def _server_settings(query_seconds: float) -> dict[str, str]:
    milliseconds = str(int(query_seconds * 1000))
    return {
        "application_name": "navi",
        "statement_timeout": milliseconds,
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": str(int(IDLE_SECONDS * 1000)),
        "jit": "off",  # compiling a plan costs more than any of these statements
        "timezone": "UTC",
        **_KEEPALIVES,
    }


async def _prepare(connection: Connection) -> None:
    # json travels as the bytes that msgspec wrote, both ways.
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=_same, decoder=bytes
    )


async def _leave(connection: "PoolConnectionProxy[asyncpg.Record] | Connection") -> None:
    """Nothing: no statement changes a connection's state, and a reset would be a round trip a read."""


def _same(data: bytes) -> bytes:
    return data


def _describe(what: str, error: Exception) -> str:
    """What happened without the driver's own words, which may quote the address."""
    return f"Postgres: {what} ({type(error).__name__})"
