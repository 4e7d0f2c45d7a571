"""How far NATS is behind the log while a service runs."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import asyncpg
from nats.aio.client import Client
from nats.js import JetStreamContext

from tests.support.navi_process import NaviProcess

STREAM = "NAVI_0"
CATCH_UP_SECONDS = 60.0
LOOK_SECONDS = 0.5


class Lag:
    """Looks at the head of the log and at the end of the stream."""

    def __init__(self, postgres: asyncpg.Connection, jetstream: JetStreamContext) -> None:
        self._postgres = postgres
        self._jetstream = jetstream
        self._asking = asyncio.Lock()  # one connection answers one question at a time
        self.most = 0

    async def head(self) -> int:
        """The last position of the log."""
        statement = "select coalesce(max(position), 0) from navi.event where partition = 0"
        async with self._asking:
            return int(await self._postgres.fetchval(statement) or 0)

    async def look(self) -> int:
        """How many events NATS is behind now."""
        head = await self.head()
        info = await self._jetstream.stream_info(STREAM)
        lag = max(0, head - info.state.last_seq)
        self.most = max(self.most, lag)
        return lag

    async def watch(self, over: asyncio.Event) -> None:
        """Look twice a second, until it is over.

        Not until it is cancelled: an answer of NATS that comes in the same moment swallows that.
        """
        while not over.is_set():
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await over.wait()

    async def caught_up(self) -> float:
        """Seconds until NATS has what the log has now."""
        started = time.monotonic()
        head = await self.head()
        async with asyncio.timeout(CATCH_UP_SECONDS):
            while (await self._jetstream.stream_info(STREAM)).state.last_seq < head:  # noqa: ASYNC110  # it is another process
                await asyncio.sleep(0.01)
        return time.monotonic() - started


@asynccontextmanager
async def open_lag(navi: NaviProcess) -> AsyncGenerator[Lag, None]:
    """On connections of its own."""
    status = (await navi.command("status", "--json")).json
    postgres = await asyncpg.connect(status["database_url"])
    client = Client()
    await client.connect(status["nats_url"])
    try:
        yield Lag(postgres, JetStreamContext(client))
    finally:
        await client.close()
        await postgres.close()
