"""Retry while Postgres is unavailable, so that a turn outlasts an outage."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from navi.domain.vocabulary.errors import LogUnavailable

log = structlog.get_logger()

RETRY_DELAYS = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between tries; the last one goes on

Answer = TypeVar("Answer")


async def with_retry(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The result of ``ask``, retried for as long as Postgres is unavailable.

    For turns alone: a person who waits for an answer gets a 503 instead.
    """
    tries = 0
    while True:
        try:
            return await ask()
        except LogUnavailable:
            delay = RETRY_DELAYS[min(tries, len(RETRY_DELAYS) - 1)]
            tries += 1
            log.warning("turn_waits_for_postgres", tries=tries)
            await asyncio.sleep(delay)
