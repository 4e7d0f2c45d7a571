"""One server for the tests of a module that leave it as it was."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.model_server import ModelServer, demo_parts
from tests.support.navi_process import NaviProcess, running_navi


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NaviProcess, None]:
    """A navi on embedded servers with the demo model, shared by the tests of a module."""
    async with running_navi(tmp_path_factory.mktemp("navi") / "data") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models() -> AsyncGenerator[ModelServer, None]:
    """A scripted model server, shared by the tests of a module."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
def forget_requests(models: ModelServer) -> None:
    """The model server as at first."""
    models.requests.clear()
    models.otherwise = demo_parts


@pytest_asyncio.fixture
async def own_navi(tmp_path: Path) -> AsyncGenerator[NaviProcess, None]:
    """A navi of a test's own, to kill."""
    async with running_navi(tmp_path / "data") as running:
        yield running
