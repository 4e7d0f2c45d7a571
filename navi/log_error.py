"""Log an error that nobody expected, with its traceback."""

import asyncio
import traceback
from typing import Protocol


class Log(Protocol):
    """What of a logger of structlog is used here."""

    def error(self, event: str | None = None, **values: object) -> object: ...


async def log_error(log: Log, event: str, error: Exception) -> None:
    """Log the type of an error and where it came from.

    A traceback quotes source files, which are read: not in the event loop.
    """
    trace = await asyncio.to_thread(traceback.format_exception, error)
    log.error(event, reason=type(error).__name__, exception="".join(trace))
