"""Wait for a Postgres that is starting up, or is away for a moment."""

import asyncio
import time

import structlog

from navi.adapters.postgres.examine import examine, name_of, reason_of
from navi.cli.shared.command import CommandFailed
from navi.domain.vocabulary.errors import LogUnavailable

POSTGRES_TIMEOUT = 30.0  # seconds, as for one that starts in a new pod
RETRY_SECONDS = 0.5
FIRST_WORD = 2.0  # seconds after which the user is told what is waited for

log = structlog.get_logger()


async def wait_for_postgres(database_url: str) -> None:
    """Wait until a Postgres answers.

    Raises:
        CommandFailed: it does not answer, or will not have us.
    """
    started, told = time.monotonic(), False
    while True:
        try:
            await examine(database_url)
        except LogUnavailable as error:
            reason = reason_of(error)
            waited = time.monotonic() - started
            if reason.is_final or waited > POSTGRES_TIMEOUT:
                raise CommandFailed(
                    f"Postgres at {name_of(database_url)} cannot be used: {reason.text}"
                ) from error
            if waited > FIRST_WORD and not told:
                log.warning(
                    "waiting_for_postgres",
                    server=name_of(database_url),
                    reason=reason.text,
                    seconds=POSTGRES_TIMEOUT,
                )
                told = True
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
