"""Waiting for NATS in tests: with a deadline, and for something that is seen to happen."""

import asyncio
from collections.abc import Callable

from navi.adapters.nats.connect import NatsConnection


async def until(happened: Callable[[], bool], *, seconds: float = 60) -> None:
    """Look every few milliseconds until it happened; fails after a deadline."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what a server did is not told by an event of ours
            await asyncio.sleep(0.005)


async def connected(connection: NatsConnection) -> None:
    """Wait until there is a connection."""
    await until(lambda: connection.trouble is None)
