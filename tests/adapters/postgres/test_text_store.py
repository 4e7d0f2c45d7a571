from collections.abc import AsyncGenerator

import pytest

from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.log.text_store import PostgresTextStore
from navi.ports.text_store import TextStore
from tests.contracts.text_store import TextStoreContract


class TestPostgresTextStore(TextStoreContract):
    @pytest.fixture
    async def store(self, database: str) -> AsyncGenerator[TextStore, None]:
        async with open_pool(database, size=1) as pool:
            yield PostgresTextStore(pool)


async def test_a_text_that_was_changed_behind_it_is_named(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        store = PostgresTextStore(pool)
        names = await store.put("one", "two")
        assert await store.damaged() == frozenset()

        await pool.execute("update navi.text set content = 'x' where content = 'two'")

        assert await store.damaged() == {names[1]}
