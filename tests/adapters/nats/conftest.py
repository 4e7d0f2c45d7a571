from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.adapters.nats.own_server import OwnServer


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncGenerator[OwnServer, None]:
    """A server of this test alone, not started yet."""
    server = OwnServer(tmp_path)
    yield server
    await server.kill()
