"""Work in threads that a command waits for, whatever ends it."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
T = TypeVar("T")


async def to_its_end(work: Callable[Given, T], *args: Given.args, **kwargs: Given.kwargs) -> T:
    """What ``asyncio.to_thread`` gives; where it is cancelled the thread ends first.

    A thread cannot be cancelled, and would go on beside what its caller puts away.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(thread)
    finally:
        await asyncio.wait({thread})
