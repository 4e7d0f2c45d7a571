"""Log an error that nobody expected, and where it came from."""

import traceback
from typing import Protocol


class Log(Protocol):
    """What of a logger of structlog is used here."""

    def error(self, event: str | None = None, **values: object) -> object: ...


def log_error(log: Log, event: str, error: Exception) -> None:
    """Log the type of an error and where it came from: its own words may quote what people wrote.

    Without the lines themselves: source files would be read for them, in the event loop.
    """
    frames = traceback.walk_tb(error.__traceback__)
    where = [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}" for frame, line in frames]
    log.error(event, reason=type(error).__name__, where=where)
