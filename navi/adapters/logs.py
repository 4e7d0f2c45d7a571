"""Structured logging to standard error."""

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog

from navi.domain.log.secrets import Secrets
from navi.log_error import places_of, reason_of


def configure_logs(*, level: str, colours: bool, secrets: Secrets) -> None:
    """Set up structlog and the logs of libraries; readable on a terminal, JSON lines elsewhere.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        colours: whether a person reads them on a terminal.
        secrets: what is masked in every value.
    """
    sink = Sink(sys.stderr)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _sum_up_error,
        _Mask(secrets),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()] if colours else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(sink),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *last,
        ],
    )
    handler = logging.StreamHandler(sink)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


class Sink(TextIO):
    """The output of log lines; one that cannot be written is dropped without an error.

    The file behind it may be on a full disk, or a pipe whose reader has gone.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str, /) -> int:
        """Write a line, or lose it."""
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what is buffered; what cannot be written now goes out with the next line."""
        with suppress(OSError):
            self._file.flush()


def _sum_up_error(
    logger: object, method: str, entry: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Put in the place of an error that a library logs what ``log_error`` says of ours."""
    del logger, method
    match entry.pop("exc_info", None):
        case BaseException() as error:
            pass
        case (_, BaseException() as error, _):
            pass
        case True:
            error = sys.exc_info()[1]
        case _:
            error = None
    return (
        entry if error is None else {**entry, "reason": reason_of(error), "where": places_of(error)}
    )


class _Mask:
    """Masks secrets in every text of a log entry."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def __call__(
        self, logger: object, method: str, entry: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        del logger, method
        return {
            key: self._secrets.mask(value).text if isinstance(value, str) else value
            for key, value in entry.items()
        }
