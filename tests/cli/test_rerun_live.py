"""``navi rerun --with`` beside a service: it leaves the database of others as it is."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.postgres.migrate import default_directory, migrate, pending
from tests.support.navi_process import run_navi
from tests.support.servers import NatsServer

NOBODY = "01970000-0000-7000-8000-000000000000"
*BEFORE, LAST = sorted(default_directory().glob("*.sql"))
PARTITIONS = "select count(*) from navi.log_partition"


@pytest.fixture
def before_last(tmp_path: Path) -> Path:
    """The migrations of the version before."""
    directory = tmp_path / "migrations"
    directory.mkdir()
    for path in BEFORE:
        shutil.copy(path, directory)
    return directory


def settings_of(dsn: str, nats_server: NatsServer) -> Mapping[str, str]:
    """Of servers that belong to somebody."""
    return {"DATABASE_URL": dsn, "NATS_URL": nats_server.url}


async def test_it_refuses_a_database_that_lacks_a_migration(
    empty_database: str, nats_server: NatsServer, before_last: Path, tmp_path: Path
) -> None:
    await migrate(empty_database, directory=before_last)

    ended = await run_navi(
        *("rerun", NOBODY, "--with", "model=other"),
        data_dir=tmp_path / "data",
        settings=settings_of(empty_database, nats_server),
    )

    assert (ended.status, ended.stderr) == (
        1,
        f"navi: the database lacks {LAST.stem}, which this version of navi needs; `navi migrate` "
        "applies it\n",
    )
    assert await pending(empty_database) == (LAST.stem,)


async def test_it_makes_no_partitions(
    database: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    ended = await run_navi(
        *("rerun", NOBODY, "--with", "model=other"),
        data_dir=tmp_path / "data",
        settings={**settings_of(database, nats_server), "NAVI_LOG_PARTITIONS": "3"},
    )

    assert (ended.status, ended.stderr.splitlines()[-1]) == (1, f"navi: no session {NOBODY}")
    connection = await asyncpg.connect(database)
    try:
        assert await connection.fetchval(PARTITIONS) == 1
    finally:
        await connection.close()
