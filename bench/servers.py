"""Real servers in a scratch directory, as durable as in use, and logs on them."""

import os
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import migrate
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.system import RandomIds, SystemClock
from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import CreateSession
from navi.domain.vocabulary.ids import LOCAL_OWNER, NodeId, SessionId, uuid7
from tests.support.cluster import give_cluster
from tests.support.servers import PostgresServer


class Servers(Struct, frozen=True, kw_only=True):
    """The servers of a run."""

    directory: Path
    nats_url: str
    postgres: PostgresServer

    @asynccontextmanager
    async def database(self) -> AsyncGenerator[str, None]:
        """The DSN of a database with navi's tables and nothing in them, gone with the block."""
        dsn = await self.postgres.create_database()
        try:
            await migrate(dsn)
            yield dsn
        finally:
            await self.postgres.drop_database(dsn)


@asynccontextmanager
async def open_servers() -> AsyncGenerator[Servers, None]:
    """A real Postgres (``fsync`` on, navi's own settings) and a real NATS, gone with the block."""
    with tempfile.TemporaryDirectory(prefix="navi-bench-") as name:
        directory = Path(name)
        await give_cluster(directory)
        async with await EmbeddedServers.start(
            directory, postgres=True, nats=True, nats_port=0
        ) as servers:
            assert servers.addresses.database_url is not None
            assert servers.addresses.nats_url is not None
            yield Servers(
                directory=directory,
                nats_url=servers.addresses.nats_url,
                postgres=PostgresServer(servers.addresses.database_url),
            )


class Store(Struct, frozen=True, kw_only=True):
    """The log of one process with what it keeps in memory, and the read models beside it."""

    log: PostgresEventLog
    read_models: PostgresReadModels
    node: NodeId

    def records(self) -> Records:
        """The sessions as a process knows them that has just started."""
        return Records(self.log, self.read_models, SystemClock(), RandomIds(), self.node, Secrets())

    async def create(self) -> Record:
        """A new session, with all that a turn keeps up to date."""
        record = await self.records().open(SessionId(new_id()))
        await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
        await record.context()
        await record.todo()
        return record


@asynccontextmanager
async def open_store(dsn: str, *, partitions: int = 1) -> AsyncGenerator[Store, None]:
    """A store that remembers nothing of what others wrote."""
    async with (
        open_pool(dsn, size=8) as pool,
        PostgresEventLog.open(dsn, partitions=partitions) as log,
    ):
        yield Store(log=log, read_models=PostgresReadModels(pool), node=NodeId(new_id()))


def new_id() -> str:
    """A UUIDv7."""
    return uuid7(milliseconds=time.time_ns() // 1_000_000, random=os.urandom(10))
