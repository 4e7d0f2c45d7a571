"""Wait for what nobody tells of: a file, another process, a server."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import getsource, isawaitable, ismethod
from typing import TypeAlias

DEADLINE_SECONDS = 180.0  # what takes a moment may take a minute on a machine with other work
STEP_SECONDS = 0.02

Condition: TypeAlias = Callable[[], bool | Awaitable[bool]]


async def until(holds: Condition, *, seconds: float = DEADLINE_SECONDS) -> None:
    """Look every few milliseconds until something holds.

    Args:
        seconds: another deadline, only where the time itself is what is tested.

    Raises:
        TimeoutError: it never held; the error names it.
    """
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            while not await _look(holds):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(STEP_SECONDS)
    except TimeoutError as error:
        if not deadline.expired():
            raise  # one of what was looked at
        raise TimeoutError(f"never within {seconds:g} s: {_named(holds)}") from error


async def _look(holds: Condition) -> bool:
    held = holds()
    return await held if isawaitable(held) else held


def _named(holds: Condition) -> str:
    """What is waited for, as the test has written it."""
    if ismethod(holds):
        return f"{holds.__name__} of {holds.__self__!r}"
    return getsource(holds).strip()
