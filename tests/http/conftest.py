"""The service on a log in memory behind its real server: one for a module, or one of a test's own."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.app import RunningApp, running_app

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a module in one loop, which is the one its service runs in."""
    for item in items:
        if HERE in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    """Shared: every test has sessions of its own in it."""
    async with running_app(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def own_app(tmp_path: Path) -> AsyncGenerator[RunningApp, None]:
    """For tests that look at all sessions, or that change the process."""
    async with running_app(tmp_path) as running:
        yield running
