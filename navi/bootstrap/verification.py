"""Look through a long log in several processes: verifying it takes the processor, not the disk."""

import asyncio
import gc
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, aclosing
from multiprocessing import get_context
from multiprocessing.util import Finalize

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.processes.cores import usable_cores
from navi.application.audit.verify_log import (
    LookThrough,
    Sought,
    Stretch,
    StretchFindings,
    look_here,
    look_through,
)

WORTH_STRETCHES = (
    4  # a process of its own takes a second to start, which is what two stretches take
)
MOST_PROCESSES = 8  # each takes up to three connections of Postgres beside those of the nodes
AHEAD = 2  # stretches a process that wait or are done before their turn: what is held in memory

# With how many events there are, gives what takes how many more of them were verified.
Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]


def looking(database_url: str, log: PostgresEventLog, progress: Progress) -> LookThrough:
    """A look at all stretches of a log, on all processors where it is long, which ``progress`` shows."""

    async def look(
        stretches: Sequence[Stretch], sought: Sought
    ) -> AsyncGenerator[StretchFindings, None]:
        sizes = [stretch.until - stretch.after for stretch in stretches]
        at_work = (look_here(log) if len(stretches) < WORTH_STRETCHES else in_processes)(
            stretches, sought
        )
        with progress(sum(sizes)) as advance:
            async with aclosing(at_work) as all_found:
                for size in sizes:
                    found = await anext(all_found)
                    advance(size)
                    yield found

    async def in_processes(
        stretches: Sequence[Stretch], sought: Sought
    ) -> AsyncGenerator[StretchFindings, None]:
        processes = min(len(stretches), usable_cores(), MOST_PROCESSES)
        pool = await asyncio.to_thread(_pool, processes, database_url, sought)
        waiting: deque[asyncio.Future[StretchFindings]] = deque()
        try:
            for stretch in stretches:
                submitted = await asyncio.to_thread(pool.submit, _look, stretch)  # may start one
                waiting.append(asyncio.wrap_future(submitted))
                if len(waiting) >= AHEAD * processes:
                    yield await waiting.popleft()
            while waiting:
                yield await waiting.popleft()
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    return look


# --- in a process of the pool ---

_given: tuple[str, Sought] | None = None
_opened: tuple[asyncio.Runner, PostgresEventLog] | None = None


def _pool(processes: int, database_url: str, sought: Sought) -> ProcessPoolExecutor:
    given = (database_url, sought)
    return ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=given)


def _begin(database_url: str, sought: Sought) -> None:
    global _given  # noqa: PLW0603 - a process of the pool is given it once, not with each stretch
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all: the command ends the pool
    gc.disable()  # rows hold no cycles, and are looked at by the million; see `_look`
    _given = (database_url, sought)


def _look(stretch: Stretch) -> StretchFindings:
    assert _given is not None  # noqa: S101 - the initializer has run
    _, sought = _given
    runner, log = _open_log()
    try:
        return runner.run(look_through(log, stretch, sought))
    finally:
        gc.collect()  # what stands around the rows does hold some


def _open_log() -> tuple[asyncio.Runner, PostgresEventLog]:
    """The log, opened with the first stretch and closed with the process."""
    global _opened  # noqa: PLW0603 - likewise
    if _opened is None:
        assert _given is not None  # noqa: S101 - likewise
        database_url, _ = _given
        runner, stack = asyncio.Runner(), AsyncExitStack()
        opening = PostgresEventLog.open(database_url, allow_unsafe_durability=True)
        _opened = runner, runner.run(stack.enter_async_context(opening))
        Finalize(None, _close, args=(runner, stack), exitpriority=0)
    return _opened


def _close(runner: asyncio.Runner, stack: AsyncExitStack) -> None:
    with runner:
        runner.run(stack.aclose())
