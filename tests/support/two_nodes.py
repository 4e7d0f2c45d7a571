"""Two nodes of one service, in processes of their own, on the servers that the tests share."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from tests.support.navi_process import NaviProcess
from tests.support.servers import NatsServer, PostgresServer

NAP = '''\
import asyncio
from pathlib import Path


async def nap() -> str:
    """Sleep until somebody makes a file ``awake``."""
    while not Path("awake").exists():
        await asyncio.sleep(0.02)
    return "slept"
'''


class TwoNodes(Struct, frozen=True):
    """Two nodes that run; both have the tool ``nap``."""

    a: NaviProcess
    b: NaviProcess

    def wake(self, session_id: str) -> None:
        """End the naps of a session, or let them end at once where none has begun."""
        folder = self.a.data_dir / "files" / session_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "awake").touch()


@asynccontextmanager
async def fresh_service(
    directory: Path, postgres: PostgresServer, nats: NatsServer
) -> AsyncGenerator[dict[str, str], None]:
    """Settings of nodes on a database and streams of their own, with the tool ``nap``."""
    tools = directory / "tools"
    tools.mkdir(parents=True)
    (tools / "nap.py").write_text(NAP)
    await nats.clear()
    dsn = await postgres.create_migrated()
    try:
        yield {"DATABASE_URL": dsn, "NATS_URL": nats.url, "NAVI_TOOLS_DIR": str(tools)}
    finally:
        await postgres.drop_database(dsn)


def share_files(files: Path, *data_dirs: Path) -> None:
    """Give data directories the same files directory, as nodes of one service have to have."""
    files.mkdir(parents=True, exist_ok=True)
    for data_dir in data_dirs:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not (data_dir / "files").is_symlink():
            (data_dir / "files").symlink_to(files)


@asynccontextmanager
async def running_nodes(
    directory: Path, *settings: Mapping[str, str]
) -> AsyncGenerator[tuple[NaviProcess, ...], None]:
    """Nodes while the block runs, one for each of the settings, started side by side."""
    await asyncio.to_thread(
        share_files, directory / "files", *(directory / f"node{n}" for n in range(len(settings)))
    )
    nodes = [NaviProcess(directory / f"node{n}", each) for n, each in enumerate(settings)]
    async with AsyncExitStack() as stack:
        for node in nodes:
            stack.push_async_callback(node.end)
        await asyncio.gather(*(node.start() for node in nodes))
        yield tuple(nodes)


@asynccontextmanager
async def two_nodes(
    factory: pytest.TempPathFactory, postgres: PostgresServer, nats: NatsServer, **settings: str
) -> AsyncGenerator[TwoNodes, None]:
    """Two nodes alike."""
    directory = factory.mktemp("two-nodes")
    async with fresh_service(directory, postgres, nats) as shared:
        both = {**shared, **settings}
        async with running_nodes(directory, both, both) as (a, b):
            yield TwoNodes(a, b)
