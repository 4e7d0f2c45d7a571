from collections.abc import AsyncGenerator

import pytest

from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.trace_checkpoint import PostgresTraceCheckpoint
from navi.ports.traces import TraceCheckpoint
from tests.contracts.trace_checkpoint import TraceCheckpointContract


class TestPostgresTraceCheckpoint(TraceCheckpointContract):
    @pytest.fixture
    async def checkpoint(self, database: str) -> AsyncGenerator[TraceCheckpoint, None]:
        async with open_pool(database, size=1) as pool:
            yield PostgresTraceCheckpoint(pool)
