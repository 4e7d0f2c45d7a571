"""A dump of the newest Postgres is restored into an older one too, and all of it or nothing."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.postgres.dump import dump, restore, wheel_programs
from navi.adapters.postgres.migrate import pending
from navi.adapters.postgres.prepare import find_vector, prepare, vector_schema
from navi.domain.vocabulary.errors import StoreRefused


@pytest.fixture
def programs() -> Path:
    found = wheel_programs()
    assert found is not None
    return found


async def test_an_older_server_takes_it(tmp_path: Path, database: str, programs: Path) -> None:
    older = programs.parent.parent / "pginstall/bin"  # the wheel has Postgres 16 as well
    await dump(database, tmp_path / "dump", programs=programs, environment={})

    async with await EmbeddedServers.start(
        tmp_path / "data", postgres=True, nats=False, nats_port=0, postgres_bin=older
    ) as servers:
        dsn = servers.addresses.database_url
        assert dsn is not None
        await prepare(dsn, vector_in=await vector_schema(database))
        await restore(dsn, tmp_path / "dump", programs=programs, environment={})
        await find_vector(dsn)

        assert await pending(dsn) == ()


async def test_one_that_breaks_off_leaves_nothing(
    tmp_path: Path, database: str, empty_database: str, programs: Path
) -> None:
    file = tmp_path / "dump"
    await dump(database, file, programs=programs, environment={})
    whole = await asyncio.to_thread(file.read_bytes)
    await asyncio.to_thread(file.write_bytes, whole[: len(whole) * 9 // 10])
    await prepare(empty_database, vector_in=await vector_schema(database))

    with pytest.raises(StoreRefused, match="pg_restore failed"):
        await restore(empty_database, file, programs=programs, environment={})

    assert await tables_of(empty_database) == 0


async def test_what_the_server_refuses_is_told(
    tmp_path: Path, database: str, empty_database: str, programs: Path
) -> None:
    await dump(database, tmp_path / "dump", programs=programs, environment={})

    with pytest.raises(StoreRefused, match=r'psql failed: .*schema "navi" does not exist'):
        await restore(empty_database, tmp_path / "dump", programs=programs, environment={})

    assert await tables_of(empty_database) == 0


async def tables_of(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("select count(*) from pg_tables where schemaname = 'navi'")
    finally:
        await connection.close()
