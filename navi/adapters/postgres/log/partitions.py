"""Opening the log: the server is looked at, missing partitions are made, tasks get their owner."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import structlog

from navi.adapters.postgres.connect import Pool, check_server, connect, fetch
from navi.adapters.postgres.log import statements
from navi.adapters.postgres.log.tail import Tail
from navi.adapters.postgres.log.writer import Writer
from navi.ports.wake_ups import WakeUps

log = structlog.get_logger()


async def set_up(dsn: str, *, partitions: int, allow_unsafe_durability: bool) -> tuple[str, int]:
    """Check the server and make what partitions are missing; gives the log's id and their number."""
    connection = await connect(dsn)
    try:
        await check_server(connection, allow_unsafe_durability=allow_unsafe_durability)
        log_id = str(await connection.fetchval(statements.LOG_ID))
        async with connection.transaction():
            await connection.execute(statements.LOCK_PARTITIONS)
            for number in range(partitions):
                await connection.execute(statements.ENSURE_PARTITION, number)
            count: int = await connection.fetchval(statements.COUNT_PARTITIONS)
    finally:
        connection.terminate()
    return log_id, count


async def count_partitions(pool: Pool) -> int:
    """How many partitions the log has, which may be more than new sessions are spread over.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    [row] = await fetch(pool, statements.COUNT_PARTITIONS)
    return row["partitions"]


@asynccontextmanager
async def running(owned: Sequence[Writer | Tail]) -> AsyncGenerator[None, None]:
    """The tasks of writers and tails, ended with the block.

    Not a TaskGroup: it would wrap what the block raises. A task that fails answers all that wait for
    it, and what it raised is raised when the block ends.
    """
    tasks = [asyncio.create_task(one.run()) for one in owned]
    for task in tasks:
        task.add_done_callback(_report)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _report(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("log_task_failed", error=type(error).__name__)


@asynccontextmanager
async def woken(wake_ups: WakeUps | None, tails: Sequence[Tail]) -> AsyncGenerator[None, None]:
    """Announcements of other nodes go to the tails, while the block runs."""
    if wake_ups is None:
        yield
        return

    def announced(partition: int, position: int) -> None:
        if 0 <= partition < len(tails):
            tails[partition].announced(position)

    unsubscribe = wake_ups.subscribe(announced)
    try:
        yield
    finally:
        unsubscribe()
