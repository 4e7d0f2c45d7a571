"""Embedding models on Ollama and OpenAI-compatible servers: asked, found, and set aside."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from navi.adapters.llm.embedders import LOOK_SECONDS, SET_ASIDE_SECONDS, FoundEmbedders
from navi.adapters.llm.embeddings import EmbeddingServer
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.system import RandomIds
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.ids import CallId
from navi.ports.embedding import Embedder
from tests.contracts.embedder import EmbedderContract
from tests.support.manual_clock import ManualClock
from tests.support.model_server import MODEL as CHAT
from tests.support.model_server import ModelServer, embedding

NOMIC, BGE = "nomic-embed-text:latest", "BAAI/bge-m3"
CALL = CallId("0199c0de-0000-7000-8000-00000000000b")


def found_on(
    *servers: EmbeddingServer, model: str | None = None, clock: ManualClock | None = None
) -> FoundEmbedders:
    return FoundEmbedders(servers, model=model, clock=clock or ManualClock(), ids=RandomIds())


async def name_of(embedders: FoundEmbedders) -> str | None:
    embedder = await embedders.current()
    return None if embedder is None else embedder.model


async def found(embedders: FoundEmbedders) -> Embedder:
    embedder = await embedders.current()
    assert embedder is not None
    return embedder


class TestOnOllama(EmbedderContract):
    @pytest.fixture
    async def embedder(self, server: ModelServer, ollama: Ollama) -> Embedder:
        server.models = [CHAT, NOMIC]
        return await found(found_on(ollama.embeddings))


class TestOnOpenAI(EmbedderContract):
    @pytest.fixture
    async def embedder(self, server: ModelServer, openai: OpenAI) -> Embedder:
        server.models = [CHAT, BGE]
        return await found(found_on(openai.embeddings))


async def test_a_request_to_ollama_says_what_it_is_for(server: ModelServer, ollama: Ollama) -> None:
    server.models = [NOMIC]

    await ollama.embeddings.embed(NOMIC, ["tea", "x" * 9_000], call_id=CALL)

    [request] = server.requests
    assert (request.path, request.json) == (
        "/api/embed",
        {"model": NOMIC, "input": ["tea", "x" * 8_000], "truncate": True},
    )
    assert request.headers["x-navi-purpose"] == "memory"
    assert request.headers["x-navi-call"] == CALL


async def test_a_request_to_openai_says_what_it_is_for(server: ModelServer, openai: OpenAI) -> None:
    server.models = [BGE]

    await openai.embeddings.embed(BGE, ["tea"], call_id=CALL)

    [request] = server.requests
    assert (request.path, request.json) == (
        "/v1/embeddings",
        {"model": BGE, "input": ["tea"], "encoding_format": "float"},
    )
    assert request.headers["x-navi-purpose"] == "memory"
    assert request.headers["x-navi-call"] == CALL


async def test_without_texts_nothing_is_asked(server: ModelServer, ollama: Ollama) -> None:
    assert await ollama.embeddings.embed(NOMIC, [], call_id=CALL) == ()
    assert server.requests == []


NONSENSE: list[tuple[Any, str]] = [
    ({"embeddings": []}, "0 embeddings for 2 texts"),
    ({"embeddings": [[1.0], [1.0, 2.0]]}, "different dimensions"),
    ({"embeddings": [[], []]}, "embeddings of 0 numbers"),
    ({"embeddings": [[0.1] * 16_001] * 2}, "embeddings of 16001 numbers"),
    ({"embeddings": [[1e39], [1.0]]}, "too large"),
    ({"embeddings": [[None], [1.0]]}, "malformed"),
    ({"vectors": []}, "malformed"),
]


@pytest.mark.parametrize(("answer", "error"), NONSENSE)
async def test_nonsense_is_refused(
    answer: Any, error: str, server: ModelServer, ollama: Ollama
) -> None:
    server.otherwise_at["/api/embed"] = answer

    with pytest.raises(ModelFailure, match=error) as raised:
        await ollama.embeddings.embed(NOMIC, ["a", "b"], call_id=CALL)

    assert raised.value.kind == "protocol"


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (
            [{"name": "qwen3:8b"}, {"name": "mxbai-embed-large:latest"}],
            ("mxbai-embed-large:latest",),
        ),
        (
            [{"name": "all-minilm:33m"}, {"name": "bge-m3:latest"}],
            ("all-minilm:33m", "bge-m3:latest"),
        ),
        (
            [
                {"name": "qwen3:8b", "capabilities": ["completion"]},
                {"name": "odd:1b", "capabilities": ["embedding"]},
            ],
            ("odd:1b",),
        ),
        ([{"name": "embedded-chat:1b", "capabilities": ["completion"]}], ()),
        ([{"name": "embed:cloud", "remote_host": "https://elsewhere"}], ()),
        ([], ()),
    ],
)
async def test_ollamas_list_tells_what_embeds(
    tags: list[dict[str, object]], names: tuple[str, ...], server: ModelServer, ollama: Ollama
) -> None:
    server.otherwise_at["/api/tags"] = {"models": tags}

    assert await ollama.embeddings.embedding_models() == names


async def test_an_ollama_whose_list_tells_nothing_is_asked_model_by_model(
    server: ModelServer, ollama: Ollama
) -> None:
    server.models = ["odd:1b"]
    assert await ollama.embeddings.embedding_models() == ()

    server.capabilities = ["embedding"]
    assert await ollama.embeddings.embedding_models() == ("odd:1b",)


async def test_the_configured_model_is_taken_whatever_is_listed(
    server: ModelServer, ollama: Ollama
) -> None:
    server.models = [NOMIC, "odd:1b"]

    assert await name_of(found_on(ollama.embeddings, model="odd:1b")) == "odd:1b"


async def test_a_server_without_one_leaves_it_to_the_next(
    server: ModelServer, ollama: Ollama, openai: OpenAI
) -> None:
    server.otherwise_at["/api/tags"] = {"models": []}
    server.models = [CHAT, BGE]

    assert await name_of(found_on(ollama.embeddings, openai.embeddings)) == BGE
    assert await name_of(found_on()) is None


async def test_one_that_is_got_later_is_found_after_a_while(
    server: ModelServer, ollama: Ollama
) -> None:
    clock = ManualClock()
    embedders = found_on(ollama.embeddings, clock=clock)
    assert await name_of(embedders) is None
    server.models = [CHAT, NOMIC]

    assert await name_of(embedders) is None
    clock.wind(LOOK_SECONDS)
    assert await name_of(embedders) == NOMIC


async def test_one_that_fails_is_set_aside_and_comes_back(
    server: ModelServer, ollama: Ollama
) -> None:
    server.models = [NOMIC]
    clock = ManualClock()
    embedders = found_on(ollama.embeddings, clock=clock)
    embedder = await found(embedders)
    server.otherwise_at["/api/embed"] = {"error": "out of memory"}

    with pytest.raises(ModelFailure):
        await embedder.embed(["tea"])
    assert await name_of(embedders) is None

    del server.otherwise_at["/api/embed"]
    server.models = ["mxbai-embed-large:latest", NOMIC]
    clock.wind(SET_ASIDE_SECONDS)
    assert await name_of(embedders) == NOMIC


async def test_one_that_was_removed_is_replaced(server: ModelServer, ollama: Ollama) -> None:
    server.models = [NOMIC]
    clock = ManualClock()
    embedders = found_on(ollama.embeddings, clock=clock)
    embedder = await found(embedders)
    server.models = ["mxbai-embed-large:latest"]

    with pytest.raises(ModelFailure):
        await embedder.embed(["tea"])

    clock.wind(SET_ASIDE_SECONDS)
    assert await name_of(embedders) == "mxbai-embed-large:latest"


async def test_one_that_changed_its_dimension_is_looked_at_again(
    server: ModelServer, ollama: Ollama
) -> None:
    server.models = [NOMIC]
    clock = ManualClock()
    embedders = found_on(ollama.embeddings, clock=clock)
    embedder = await found(embedders)
    server.otherwise_at["/api/embed"] = {"embeddings": [[1.0, 0.0]]}

    with pytest.raises(ModelFailure, match="another dimension"):
        await embedder.embed(["tea"])

    clock.wind(SET_ASIDE_SECONDS)
    assert (await found(embedders)).dimension == 2


async def test_while_one_looks_the_others_do_not_wait(server: ModelServer, ollama: Ollama) -> None:
    server.models = [NOMIC]
    embedders = found_on(ollama.embeddings)
    looking = asyncio.ensure_future(embedders.current())
    await asyncio.sleep(0)

    assert await embedders.current() is None

    assert await looking is not None


async def test_who_is_tired_of_waiting_saves_the_next_one_the_wait() -> None:
    class Hanging:
        async def embedding_models(self) -> tuple[str, ...]:
            return (NOMIC,)

        async def embed(
            self, model: str, texts: object, *, call_id: CallId
        ) -> tuple[tuple[float, ...], ...]:
            if texts != ("navi",):
                await asyncio.Event().wait()
            return (tuple(embedding("navi")),)

    embedders = found_on(Hanging())
    waiting = asyncio.ensure_future((await found(embedders)).embed(["tea"]))
    await asyncio.sleep(0)

    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting

    assert await embedders.current() is None
