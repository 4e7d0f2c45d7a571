"""The in-memory log keeps the promises of every log."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.ports import EventLog
from tests.contracts.event_log import EventLogContract


class TestInMemoryEventLog(EventLogContract):
    @pytest.fixture
    def database(self) -> str:
        return "none"

    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[EventLog, EventLog], None]:
        log = InMemoryEventLog()
        yield log, log
