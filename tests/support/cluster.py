"""A new Postgres cluster for a data directory: a copy of one that was made once, as `initdb` takes long."""

import asyncio
import atexit
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import asyncpg

from navi.adapters.embedded.servers import EmbeddedServers

# The template that nothing is made from: a quarter of the files, which every copy would have.
WITHOUT_SPARE = (
    "ALTER DATABASE template0 IS_TEMPLATE false",
    "DROP DATABASE template0",
)

_lock = threading.Lock()
_made: list[Path] = []


async def give_cluster(data_dir: Path) -> None:
    """Put a cluster with an empty database into a data directory that has none."""
    await asyncio.to_thread(_give, data_dir / "postgres")


def _give(home: Path) -> None:
    cluster = home / "cluster"
    if cluster.exists():
        return
    with _lock:
        if not _made:
            _made.append(_make())
    copy_directory(_made[0], cluster)


def copy_directory(source: Path, copy: Path) -> None:
    """A copy, owners and modes included; `shutil.copytree` takes ten times as long over a cluster."""
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", source, copy], check=True)  # noqa: S607 - wherever it is


def _make() -> Path:
    """A cluster that a first start has made."""
    data_dir = Path(tempfile.mkdtemp(prefix="navi-cluster-"))
    atexit.register(shutil.rmtree, data_dir, ignore_errors=True)

    async def start_and_stop() -> None:
        async with await EmbeddedServers.start(
            data_dir, postgres=True, nats=False, nats_port=0, postgres_settings={"fsync": "off"}
        ) as servers:
            assert servers.addresses.database_url is not None
            connection = await asyncpg.connect(servers.addresses.database_url)
            try:
                for statement in WITHOUT_SPARE:
                    await connection.execute(statement)
            finally:
                await connection.close()

    asyncio.run(start_and_stop())
    return data_dir / "postgres" / "cluster"
