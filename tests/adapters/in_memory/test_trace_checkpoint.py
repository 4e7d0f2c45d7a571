import pytest

from navi.adapters.in_memory.trace_checkpoint import InMemoryTraceCheckpoint
from navi.ports.traces import TraceCheckpoint
from tests.contracts.trace_checkpoint import TraceCheckpointContract


class TestInMemoryTraceCheckpoint(TraceCheckpointContract):
    @pytest.fixture
    def checkpoint(self) -> TraceCheckpoint:
        return InMemoryTraceCheckpoint()
