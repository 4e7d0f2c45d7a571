"""The real Postgres and NATS that the tests share, started once a session."""

import asyncio
import itertools
import os
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import nats
from nats.js.errors import NotFoundError

from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.postgres.migrate import migrate
from tests.support.cluster import give_cluster

# Tests lose nothing in a power cut, and every commit is faster by the disk's latency.
FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    # A checkpoint writes out what the next test drops.
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}

# A copy holds another log, which NATS tells apart by its id.
NEW_LOG = "UPDATE navi.log SET log_id = DEFAULT, made_at = DEFAULT"

Result = TypeVar("Result")


class LoopThread:
    """An event loop of its own, so that what is shared does not hang on the loop of one test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result], *, timeout: float = 120) -> Result:
        """The result of a coroutine, from a thread without a loop; seconds."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PostgresServer:
    """A server with pgvector, where tests may make and drop databases."""

    def __init__(self, admin_dsn: str) -> None:
        self.admin_dsn = admin_dsn
        self._numbers = itertools.count(1)
        self._template = ""  # DSN, once there is one

    async def create_database(self, *, template: str | None = None) -> str:
        """The DSN of a new database: empty, or a copy of the template, which nobody may be using.

        Args:
            template: name of a database, see `name_of`.
        """
        name = f"navi_test_{os.getpid()}_{next(self._numbers)}"
        # Copied as files: block by block through the log takes three times as long.
        source = "" if template is None else f' TEMPLATE "{template}" STRATEGY FILE_COPY'
        await _run(self.admin_dsn, f'CREATE DATABASE "{name}"{source}')
        return self.dsn_of(name)

    async def create_migrated(self) -> str:
        """The DSN of a new database with navi's tables: a copy of one that was migrated once."""
        if not self._template:
            template = await self.create_database()
            await migrate(template)
            self._template = template
        copy = await self.create_database(template=name_of(self._template))
        await _run(copy, NEW_LOG)
        return copy

    async def close(self) -> None:
        """Drop what databases were copied from."""
        if self._template:
            await self.drop_database(self._template)

    async def drop_database(self, dsn: str) -> None:
        """Drop it, whoever may still be connected."""
        await _run(self.admin_dsn, f'DROP DATABASE IF EXISTS "{name_of(dsn)}" WITH (FORCE)')

    def dsn_of(self, name: str) -> str:
        # Not `geturl()`: it drops the slashes of an address without a host.
        parts = urlsplit(self.admin_dsn)
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{parts.netloc}/{name}{query}"


def name_of(dsn: str) -> str:
    """The name of the database."""
    return urlsplit(dsn).path.removeprefix("/")


async def _run(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


class NatsServer:
    """One JetStream for all tests of the session; ``url`` includes the token."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def clear(self) -> None:
        """Delete every stream."""
        client = await nats.connect(self.url)
        try:
            jetstream = client.jetstream()
            for stream in await jetstream.streams_info():
                try:
                    await jetstream.delete_stream(stream.config.name or "")
                except NotFoundError:
                    continue
        finally:
            await client.close()


@contextmanager
def running_servers(
    directory: Path, *, postgres: bool, nats: bool
) -> Generator[EmbeddedServers, None, None]:
    """Embedded servers for tests, up on entry, gone on exit."""
    thread = LoopThread()
    try:
        if postgres:
            thread.run(give_cluster(directory))
        servers = thread.run(
            EmbeddedServers.start(
                directory,
                postgres=postgres,
                nats=nats,
                nats_port=0,
                postgres_settings=FORGETFUL,
            )
        )
        try:
            yield servers
        finally:
            thread.run(servers.stop())
    finally:
        thread.close()
