"""Race coroutines: the first to end wins, the others are cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def race(*works: Coroutine[Any, Any, T]) -> T:
    """The result or exception of the first coroutine to end; cancels and awaits the others.

    Where several end in the same moment, the one that stands first counts.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
