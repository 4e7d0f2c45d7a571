from collections.abc import AsyncGenerator

import asyncpg
import pytest

from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.migrate import migrate
from navi.adapters.postgres.read_models import PostgresReadModels
from navi.domain.errors import LogUnavailable
from navi.ports import ReadModels
from tests.contracts.read_models import A, ReadModelsContract, changes, put, save
from tests.support.servers import PostgresServer


@pytest.fixture
async def dsn(empty_database: str) -> str:
    await migrate(empty_database)
    return empty_database


@pytest.fixture
async def on_postgres(dsn: str) -> AsyncGenerator[ReadModels, None]:
    async with open_pool(dsn, size=8) as pool:
        yield PostgresReadModels(pool)


class TestPostgresReadModels(ReadModelsContract):
    @pytest.fixture
    def read_models(self, on_postgres: ReadModels) -> ReadModels:
        return on_postgres

    @pytest.fixture
    async def elsewhere(
        self, read_models: ReadModels, dsn: str
    ) -> AsyncGenerator[ReadModels, None]:
        async with open_pool(dsn, size=8) as pool:
            yield PostgresReadModels(pool)


async def test_a_batch_whose_connection_is_killed_leaves_nothing(
    dsn: str, on_postgres: ReadModels
) -> None:
    async def use_a_killed_connection() -> None:
        async with on_postgres.begin("sample", 1, 0) as batch:
            assert batch is not None
            await batch.save([changes(A, put(2), seq=2)], parked=(), position=2)
            await kill_others(dsn)

    await save(on_postgres, changes(A, put(1)), position=1)
    before = await on_postgres.load("sample", 1, A)

    with pytest.raises(LogUnavailable):
        await use_a_killed_connection()

    assert await on_postgres.load("sample", 1, A) == before
    await save(on_postgres, changes(A, put(2), seq=2), position=2)


async def test_without_postgres_every_call_says_so(
    postgres_server: PostgresServer, dsn: str, on_postgres: ReadModels
) -> None:
    await postgres_server.drop_database(dsn)

    with pytest.raises(LogUnavailable):
        await save(on_postgres)
    with pytest.raises(LogUnavailable):
        await on_postgres.load("sample", 1, A)
    with pytest.raises(LogUnavailable):
        await on_postgres.rebuild("sample", 1)


async def kill_others(dsn: str) -> None:
    """End every other connection to the database."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "select pg_terminate_backend(pid, 1000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
