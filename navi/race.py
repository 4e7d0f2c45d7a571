"""Race coroutines: the first to end wins, the others are cancelled."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def race(*works: Coroutine[Any, Any, T]) -> T:
    """The result or exception of the first coroutine to end; cancels and awaits the others.

    Where several end in the same moment, the one that stands first counts.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await _first_end(tasks)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _first_end(tasks: Sequence[asyncio.Future[T]]) -> asyncio.Future[None]:
    """Done with the first of the tasks; a kilobyte less than ``asyncio.wait``, which every socket takes."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: asyncio.Future[T]) -> None:
        if not ended.done():
            ended.set_result(None)

    for task in tasks:
        task.add_done_callback(end)
    return ended
