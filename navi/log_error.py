"""Log an error that nobody expected, and where it came from.

Its own words may quote what people wrote; and with the lines of the source, files would be read in the
event loop.
"""

import traceback
from collections.abc import Iterator
from typing import Protocol, cast


class Log(Protocol):
    """What of a logger of structlog is used here."""

    def error(self, event: str | None = None, **values: object) -> object: ...


def log_error(log: Log, event: str, error: Exception, **values: object) -> None:
    """Log what an error is, with values of the place that has caught it."""
    log.error(event, reason=reason_of(error), where=places_of(error), **values)


def reason_of(error: BaseException) -> str:
    """The type of an error, of those in it where it is a group, and of the one that it was raised from."""
    within = ", ".join(map(reason_of, _within(error)))
    cause = "".join(f" from {reason_of(one)}" for one in _cause(error))
    return f"{type(error).__name__}{f' ({within})' if within else ''}{cause}"


def places_of(error: BaseException) -> list[str]:
    """File, line and function of all that they came through."""
    return [*_places(error)]


def _places(error: BaseException) -> Iterator[str]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
    for inner in (*_within(error), *_cause(error)):
        yield from _places(inner)


def _cause(error: BaseException) -> tuple[BaseException, ...]:
    """What it was raised from; an error may be raised from itself."""
    cause = error.__cause__
    return () if cause is None or cause is error else (cause,)


def _within(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions
