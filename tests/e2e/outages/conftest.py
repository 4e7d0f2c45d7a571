"""A server for the tests of a module, whose Postgres and NATS they break."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.support.navi_process import NaviProcess, running_navi
from tests.support.outage_servers import Backing, backing_servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backing(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Backing, None]:
    """A Postgres and a NATS of the module's own."""
    async with backing_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    backing: Backing, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that reaches them through their proxies."""
    async with running_navi(
        tmp_path_factory.mktemp("navi") / "data", **backing.settings
    ) as running:
        yield running
