"""The in-memory log keeps the promises of every log."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.ports.log_admin import LogBackend
from tests.contracts.event_log import EventLogContract


class TestInMemoryEventLog(EventLogContract):
    @pytest.fixture
    def database(self) -> str:
        return "none"

    @asynccontextmanager
    async def open_logs(self, database: str) -> AsyncGenerator[tuple[LogBackend, LogBackend], None]:
        log = InMemoryEventLog()
        yield log, log
