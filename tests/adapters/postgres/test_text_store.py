"""Long texts are kept once, by content, in Postgres and in memory."""

from hashlib import sha256

from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.log.text_store import PostgresTextStore
from navi.ports.text_store import TextStore

TEXT = "You are navi.\u0000 Grüße"


async def check(store: TextStore) -> None:
    name = sha256(TEXT.encode()).hexdigest()

    assert await store.get(name) is None
    assert await store.put(TEXT) == (name,)
    assert await store.put(TEXT) == (name,)
    assert await store.get(name) == TEXT
    assert await store.get("no hash") is None
    assert await store.damaged() == frozenset()
    assert await store.drop([name, "no hash", "00" * 32]) == 1
    assert await store.get(name) is None
    assert await store.put(TEXT) == (name,)
    await store.forget("navi", "Bonn")
    assert await store.get(name) == TEXT
    await store.forget("navi", "Grüße")
    assert await store.get(name) is None
    assert await store.put(TEXT) == (name,)
    assert await store.get(name) == TEXT
    other = sha256(b"other").hexdigest()
    assert await store.put("other", TEXT, "other") == (other, name, other)
    assert await store.get(other) == "other"
    assert await store.put() == ()


async def test_a_text_is_found_by_its_hash_in_memory() -> None:
    await check(InMemoryTextStore())


async def test_a_text_is_found_by_its_hash_in_postgres(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        await check(PostgresTextStore(pool))


async def test_a_text_that_was_changed_behind_it_is_named(database: str) -> None:
    async with open_pool(database, size=1) as pool:
        store = PostgresTextStore(pool)
        names = await store.put("one", "two")
        assert await store.damaged() == frozenset()

        await pool.execute("update navi.text set content = 'x' where content = 'two'")

        assert await store.damaged() == {names[1]}
