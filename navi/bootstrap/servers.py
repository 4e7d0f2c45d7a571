"""The embedded servers that the settings leave to navi, and the addresses that follow."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from navi.adapters.embedded.errors import DataDirectoryInUse
from navi.adapters.embedded.servers import Addresses, EmbeddedServers
from navi.adapters.system import SystemClock
from navi.settings import Settings

log = structlog.get_logger()

READERS_SECONDS = 20.0  # what a server that starts waits for commands that read
READERS_LOOK_SECONDS = 0.1


@asynccontextmanager
async def open_servers(settings: Settings) -> AsyncGenerator[EmbeddedServers | None, None]:
    """The embedded servers that the settings leave to navi; None where both have an address."""
    if settings.database_url is not None and settings.nats_url is not None:
        yield None
        return
    async with await _start_servers(settings) as servers:
        yield servers


async def _start_servers(settings: Settings) -> EmbeddedServers:
    """Own the data directory; a command that only reads has it for a moment, and is waited for."""
    clock = SystemClock()
    deadline = clock.monotonic() + READERS_SECONDS
    while True:
        try:
            return await EmbeddedServers.start(
                settings.data_dir,
                postgres=settings.database_url is None,
                nats=settings.nats_url is None,
                nats_port=settings.nats_port,
                postgres_bin=settings.postgres_bin,
                nats_bin=settings.nats_bin,
            )
        except DataDirectoryInUse as busy:
            is_server = busy.run is not None and busy.run.http_url is not None
            if is_server or clock.monotonic() > deadline:
                raise
            await asyncio.sleep(READERS_LOOK_SECONDS)


def addresses_of(settings: Settings, servers: EmbeddedServers | None) -> Addresses:
    """Where Postgres and NATS are, given or embedded."""
    own = servers.addresses if servers is not None else Addresses()
    return Addresses(
        database_url=settings.database_url or own.database_url,
        nats_url=settings.nats_url or own.nats_url,
    )
