"""The service on a log in memory behind its real server, for each test anew."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.app import RunningApp, running_app


@pytest.fixture
async def app(tmp_path: Path) -> AsyncGenerator[RunningApp, None]:
    async with running_app(tmp_path) as running:
        yield running
