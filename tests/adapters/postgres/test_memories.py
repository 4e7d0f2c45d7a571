"""Memories on a real Postgres with pgvector."""

import asyncio
from collections.abc import AsyncGenerator, Generator

import pytest

from navi.adapters.postgres.connect import Pool, open_pool
from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.adapters.postgres.memories import memory_search
from navi.adapters.postgres.memories.memories import PostgresMemories
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.ports.memories import Memories
from tests.application.sample import CREATED, DELTA, STARTED, append
from tests.contracts.memories import (
    OSLO,
    TEA,
    B,
    MemoriesContract,
    apply,
    forgotten,
    keep,
    rows_of,
    saved,
    texts_of,
    uuid,
)
from tests.support.embedding import Chosen, WordEmbedder
from tests.support.servers import PostgresServer

C = SessionId(uuid(3))
_CLEAR = """
    truncate navi.memory, navi.memory_embedding, navi.memory_forgotten, navi.memory_replaced, navi.checkpoint"""


@pytest.fixture(scope="module")
def migrated(postgres_server: PostgresServer) -> Generator[str, None, None]:
    """One database for the module, to save time; ``pool`` empties it."""

    dsn = asyncio.run(postgres_server.create_migrated())
    yield dsn
    asyncio.run(postgres_server.drop_database(dsn))


@pytest.fixture
async def pool(migrated: str) -> AsyncGenerator[Pool, None]:
    async with open_pool(migrated, size=4) as pool:
        await pool.execute(_CLEAR)
        yield pool


@pytest.fixture
def chosen() -> Chosen:
    return Chosen()


@pytest.fixture
def on_postgres(pool: Pool, chosen: Chosen) -> Memories:
    return PostgresMemories(pool, chosen)


class TestPostgresMemories(MemoriesContract):
    @pytest.fixture
    def memories(self, pool: Pool, chosen: Chosen) -> Memories:
        return PostgresMemories(pool, chosen)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ('"green tea"', ["green tea"]),
            ("-green", ["green cup", "green tea"]),  # nothing to look for is left but the word
            ("user@example.com", ["mail to user@example.com"]),
            ("example.com", ["mail to user@example.com"]),
        ],
    )
    async def test_a_question_may_be_written_as_for_a_web_search(
        self, query: str, found: list[str], memories: Memories
    ) -> None:
        await keep(
            memories, "tea that is green", "green tea", "green cup", "mail to user@example.com"
        )

        assert (await texts_of(memories, query))[: len(found)] == found


async def test_of_a_word_that_very_many_memories_have_only_some_are_looked_at(
    on_postgres: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_search, "MAX_HITS", 3)
    await keep(on_postgres, *(f"likes tea number {each}" for each in range(8)))

    assert len(await texts_of(on_postgres, "tea")) == 3


async def test_a_word_that_very_many_memories_have_hides_no_rarer_one(
    on_postgres: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_search, "MAX_HITS", 3)
    many = [f"the user likes teacakes {each}" for each in range(8)]
    await keep(on_postgres, *many, "the user likes a teacup", "the user has a cat")

    # Found though its beginning stands in others that came before, and though "the user" does.
    assert (await texts_of(on_postgres, "teacup"))[:1] == ["the user likes a teacup"]
    assert (await texts_of(on_postgres, "has the user cats"))[:1] == ["the user has a cat"]


async def test_they_follow_the_log(migrated: str, on_postgres: Memories) -> None:
    async with PostgresEventLog.open(migrated, allow_unsafe_durability=True) as log:
        start = (await log.read_all(0, after=0, limit=1)).head
        await append(log, C, CREATED, STARTED, DELTA, saved(TEA, "Likes tea", source_seq=2))
        await append(log, C, saved(OSLO, "Oslo"), forgotten(OSLO))

        page = await log.read_all(0, after=start, limit=500, deltas=False)
        assert await on_postgres.apply(0, page.rows, after=0, position=page.reached)

    [memory] = await on_postgres.all(LOCAL_OWNER)
    assert (memory.id, memory.session_id, memory.source_seq) == (TEA, C, 2)
    assert await on_postgres.position(0) == page.head


async def test_neither_text_nor_embedding_of_a_forgotten_memory_is_left(
    on_postgres: Memories, chosen: Chosen, pool: Pool
) -> None:
    chosen.embedder = WordEmbedder()
    await keep(on_postgres, "Likes tea", "Oslo")
    await on_postgres.embed_missing()

    await apply(on_postgres, await rows_of(forgotten(TEA), session_id=B))

    assert await pool.fetchval("select array_agg(text) from navi.memory") == ["Oslo"]
    assert await pool.fetchval("select count(*) from navi.memory_embedding") == 1


async def test_embeddings_carry_model_and_dimension_side_by_side(
    on_postgres: Memories, chosen: Chosen, pool: Pool
) -> None:
    await keep(on_postgres, "Likes tea")
    for chosen.embedder in (WordEmbedder("one"), WordEmbedder("two", dimension=96)):
        await on_postgres.embed_missing()

    rows = await pool.fetch(
        "select model, dimension, vector_dims(embedding) from navi.memory_embedding order by model"
    )
    assert [tuple(row) for row in rows] == [("one", 64, 64), ("two", 96, 96)]


async def test_of_nodes_that_apply_at_once_each_stretch_is_applied_by_one(
    on_postgres: Memories, pool: Pool
) -> None:
    elsewhere = PostgresMemories(pool, Chosen())
    save = await rows_of(saved(TEA, "Likes tea"))
    forget = await rows_of(forgotten(TEA), session_id=B)

    done = await asyncio.gather(
        *(one.apply(0, save, after=0, position=1) for one in (on_postgres, elsewhere)),
        *(one.apply(1, forget, after=0, position=1) for one in (on_postgres, elsewhere)),
    )

    assert sorted(done) == [False, False, True, True]
    assert await on_postgres.all(LOCAL_OWNER) == ()


async def test_without_postgres_every_call_says_so(
    database: str, postgres_server: PostgresServer
) -> None:
    async with open_pool(database, size=2) as pool:
        memories = PostgresMemories(pool, Chosen(WordEmbedder()))
        await postgres_server.drop_database(database)

        for call in (
            lambda: memories.position(0),
            lambda: memories.apply(0, (), after=0, position=1),
            lambda: memories.all(LOCAL_OWNER),
            lambda: memories.find(LOCAL_OWNER, TEA),
            lambda: memories.search(LOCAL_OWNER, "tea", limit=1),
            memories.embed_missing,
            memories.reset,
        ):
            with pytest.raises(LogUnavailable):
                await call()
