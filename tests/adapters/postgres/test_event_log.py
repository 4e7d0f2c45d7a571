"""The Postgres log keeps the promises of every log, alone and beside another node."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.postgres.event_log import PostgresEventLog
from navi.adapters.postgres.migrate import migrate
from navi.ports import EventLog
from tests.contracts.event_log import EventLogContract


@pytest.fixture
async def database(empty_database: str) -> str:
    await migrate(empty_database)
    return empty_database


class TestOneNode(EventLogContract):
    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[EventLog, EventLog], None]:
        async with PostgresEventLog.open(database, allow_unsafe_durability=True) as log:
            yield log, log


class TestTwoNodes(EventLogContract):
    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[EventLog, EventLog], None]:
        async with (
            PostgresEventLog.open(database, allow_unsafe_durability=True) as log,
            PostgresEventLog.open(database, allow_unsafe_durability=True) as other,
        ):
            yield log, other
