"""Memory with an embedding model, seen from outside: found by words and by meaning together."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import asyncpg
import pytest
import pytest_asyncio

from tests.support.mind import session
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say
from tests.support.navi_process import NaviProcess, running_navi

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMALL, LARGE = "nomic-embed-text:latest", "mxbai-embed-large:latest"
SOON = 60.0  # seconds


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as server:
        server.models += [SMALL, LARGE]
        server.dimensions = {SMALL: 64, LARGE: 96}
        server.synonyms = {"feline": "cat", "hound": "dog"}
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["ollama", "openai"])
async def navi(
    request: pytest.FixtureRequest, models: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    models.embedding_fails = False
    models.embedding_waits.clear()
    async with running_navi(
        tmp_path_factory.mktemp("navi") / "data",
        NAVI_LLM=request.param,
        NAVI_MODEL=models.models[0],
        OLLAMA_HOST=models.url,
        OPENAI_BASE_URL=models.openai_url,
    ) as running:
        yield running


async def remembered(navi: NaviProcess, *texts: str) -> dict[str, str]:
    """The ids of new memories, by text."""
    return {text: (await navi.post("/memories", {"text": text}))["id"] for text in texts}


async def found(navi: NaviProcess, query: str) -> list[str]:
    async with navi.client() as client:
        answer = await client.get("/memories", params={"query": query})
    return [memory["text"] for memory in answer.json()["memories"]]


async def found_soon(navi: NaviProcess, query: str, texts: list[str]) -> None:
    async with asyncio.timeout(SOON):
        while await found(navi, query) != texts:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


async def embedded(navi: NaviProcess) -> Mapping[str, set[tuple[str, int]]]:
    """Model and dimension of the embeddings in the database, by the text they are of."""
    status = (await navi.command("status", "--json")).json
    connection = await asyncpg.connect(status["database_url"])
    try:
        rows = await connection.fetch(
            "select m.text, e.model, e.dimension from navi.memory_embedding e"
            " join navi.memory m using (owner, memory_id)"
            " where vector_dims(e.embedding) = e.dimension"
        )
        [left] = await connection.fetch(
            "select count(*) from navi.memory_embedding e"
            " where not exists (select from navi.memory m where m.memory_id = e.memory_id)"
        )
    finally:
        await connection.close()
    assert left["count"] == 0
    made: dict[str, set[tuple[str, int]]] = {}
    for row in rows:
        made.setdefault(row["text"], set()).add((row["model"], row["dimension"]))
    return made


async def test_memories_live_with_their_embeddings(navi: NaviProcess, models: ModelServer) -> None:
    ids = await remembered(navi, "the cat sleeps", "milk is white", "a cat wants milk")

    # By meaning as soon as they are embedded, and first what both searches find.
    await found_soon(navi, "feline", ["the cat sleeps", "a cat wants milk"])
    await found_soon(navi, "feline milk", ["a cat wants milk", "milk is white", "the cat sleeps"])
    assert await embedded(navi) == {text: {(SMALL, 64)} for text in ids}

    # In the turn of another session, too.
    session_id = await session(navi)
    models.requests.clear()
    models.answer(Say("ok"), Done())
    await navi.say(session_id, "feline")
    assert "- the cat sleeps" in models.chats[0].json["messages"][1]["content"]

    # Changed: found by the new meaning, not by the old one.
    async with navi.client() as client:
        path = f"/memories/{ids['the cat sleeps']}"
        assert (await client.patch(path, json={"text": "the dog sleeps"})).is_success
    await found_soon(navi, "hound", ["the dog sleeps"])
    assert await found(navi, "feline") == ["a cat wants milk"]

    # Forgotten: neither text nor vector is left.
    async with navi.client() as client:
        assert (await client.delete(path)).status_code == 204
    assert await found(navi, "hound") == []
    assert set(await embedded(navi)) == {"milk is white", "a cat wants milk"}


async def test_another_embedding_model_embeds_anew_in_the_background(
    navi: NaviProcess, models: ModelServer
) -> None:
    await remembered(navi, "a dog barks")
    await found_soon(navi, "hound", ["a dog barks"])
    loaded = models.embedding_waits[LARGE] = asyncio.Event()
    await navi.end()
    await navi.start(NAVI_EMBEDDING_MODEL=LARGE)

    # While the new model is being loaded: by words at once, not by meaning.
    async with asyncio.timeout(60):
        assert await found(navi, "barks") == ["a dog barks"]
        assert await found(navi, "hound") == []
    loaded.set()

    await found_soon(navi, "hound", ["a dog barks"])
    assert (LARGE, 96) in (await embedded(navi))["a dog barks"]


async def test_without_an_answer_of_the_embedding_model_memories_are_kept_and_found_by_words(
    navi: NaviProcess, models: ModelServer
) -> None:
    models.embedding_fails = True
    async with asyncio.timeout(60):
        await remembered(navi, "the parrot talks")
        assert await found(navi, "parrot") == ["the parrot talks"]

    models.embedding_fails = False
    models.embedding_waits[SMALL] = models.embedding_waits[LARGE] = asyncio.Event()
    await navi.end()
    await navi.start()
    async with asyncio.timeout(60):
        await remembered(navi, "the fish is silent")
        assert await found(navi, "fish") == ["the fish is silent"]
        session_id = await session(navi)
        models.answer(Say("ok"), Done())
        assert (await navi.say(session_id, "what of my parrot?"))["content"] == "ok"
