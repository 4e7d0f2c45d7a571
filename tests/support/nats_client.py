"""Waiting for NATS in tests."""

from navi.adapters.nats.connect import NatsConnection
from tests.support.until import until


async def connected(connection: NatsConnection) -> None:
    """Wait until there is a connection."""
    await until(lambda: connection.trouble is None)
