"""The event loop that ``navi serve`` uses, for the programs around it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(running: Coroutine[Any, Any, T]) -> T:
    """Run to the end, on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(running)
