"""The Postgres log keeps the promises of every log, alone and beside another node."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.ports.log_admin import LogBackend
from tests.contracts.event_log import EventLogContract


class TestOneNode(EventLogContract):
    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[LogBackend, LogBackend], None]:
        async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
            yield log, log


class TestTwoNodes(EventLogContract):
    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[LogBackend, LogBackend], None]:
        async with (
            PostgresEventLog.open(database, allow_unsafe_durability=True) as log,
            PostgresEventLog.open(database, allow_unsafe_durability=True) as other,
        ):
            yield log, other
