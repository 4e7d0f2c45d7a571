"""Reads for people, under row-level security: as a role to which Postgres shows one owner's rows.

The migration ``0009_read_by_owner`` says what it may see. navi's own work (appending, the relay, read models,
the agent) is done as the user of ``DATABASE_URL``, whom the policies do not concern.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import structlog

from navi.adapters.postgres.connect import (
    CONNECTION_ERRORS,
    OwnerPool,
    Pool,
    ReadPool,
    RoleNotTaken,
    connect,
    fetch,
    open_pool,
)
from navi.adapters.postgres.connection_budget import FULL
from navi.adapters.postgres.examine import DIRECTLY
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import Owner

log = structlog.get_logger()

READER_ROLE = "navi_reader"
REMEDY = f"create role {READER_ROLE} nologin; grant {READER_ROLE} to"
# As the log's own reads: along one index, whatever the planner thinks of a database that it does not know yet.
# Whose a row is, is asked for each row (``0019_read_along_the_registry``): of a registry of a few pages, too.
PLANNER = {"enable_bitmapscan": "off", "enable_seqscan": "off"}

PoolsOfOwners: TypeAlias = Callable[[Owner], ReadPool]

_OPEN_READER = "select navi.open_reader() as opened"


@asynccontextmanager
async def open_owner_pools(
    dsn: str, pool: Pool, *, size: int = FULL
) -> AsyncGenerator[PoolsOfOwners, None]:
    """Where to read for each owner, until the block ends.

    Where the user of the database may not make the role, or a pooler in between drops it, reads are
    bounded by their own conditions alone, and the log says so.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    if not (await fetch(pool, _OPEN_READER))[0]["opened"]:
        log.warning(
            "row_level_security_off",
            reason=f"the database's user may not make the role {READER_ROLE}",
            hint=f"as a superuser: {REMEDY} <the user>; then start navi again",
        )
        yield lambda _: pool
        return
    async with AsyncExitStack() as stack:
        readers: Pool | None = None
        try:
            readers = await stack.enter_async_context(
                open_pool(dsn, size=size, planner=PLANNER, role=READER_ROLE)
            )
        except LogUnavailable as error:
            if not isinstance(error.__cause__, RoleNotTaken):
                raise
            log.warning(
                "row_level_security_off",
                reason=f"what stands between navi and Postgres drops the role {READER_ROLE}",
                hint=f"{DIRECTLY}; then start navi again",
            )
        bounded = readers
        yield lambda owner: pool if bounded is None else OwnerPool(bounded, owner)


async def may_open_readers(dsn: str) -> bool:
    """Whether reads for people would be as the role; nothing is changed.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        trial = connection.transaction()
        await trial.start()
        opened = await connection.fetchval(_OPEN_READER)
        await trial.rollback()
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()
    return bool(opened)
