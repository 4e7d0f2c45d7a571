"""A service with a profile that asks before files are touched."""

import json
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.support.app import RunningApp, running_app

CAREFUL = {"approvals": [{"tool": "filesystem", "then": "ask"}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    """Shared by the tests of a module."""
    files = tmp_path_factory.mktemp("app")
    folder = files / "no-profiles" / "careful"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CAREFUL))
    async with running_app(files) as running:
        yield running
