"""What each kind of server says of its window and slots, how long that holds, and what nonsense does."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from navi.adapters.llm import capacity
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.domain.context.prompt import PromptMessage, PromptPicture
from navi.ports.language_model import Capacity
from tests.contracts.language_model import asking, collect, failure_of
from tests.support.model_server import MODEL, ModelServer
from tests.support.model_wire import Done, Say

LLAMA_CPP_MODELS = {
    "object": "list",
    "data": [
        {
            "id": "/models/smollm2.gguf",
            "aliases": ["smollm2"],
            "owned_by": "llamacpp",
            "meta": {"n_ctx": 1024, "n_ctx_train": 8192},
        }
    ],
}
LLAMA_CPP_PROPS = {"default_generation_settings": {"n_ctx": 1024}, "total_slots": 2}


def listing(**entry: Any) -> dict[str, Any]:
    return {"data": [{"id": "other", "max_model_len": 7}, {"id": MODEL, **entry}]}


SAID: dict[str, tuple[dict[str, Any], Capacity]] = {
    "llama.cpp": (
        {"/v1/models": LLAMA_CPP_MODELS, "/props": LLAMA_CPP_PROPS},
        Capacity(context_window=1024, slots=2),
    ),
    "llama.cpp without /props": (
        {"/v1/models": LLAMA_CPP_MODELS},
        Capacity(context_window=1024, slots=1),
    ),
    "llama.cpp, older": (
        {
            "/v1/models": {"data": [{"id": "gpt-3.5-turbo", "owned_by": "llamacpp"}]},
            "/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1},
        },
        Capacity(context_window=4096, slots=1),
    ),
    "llama.cpp with several models": (
        {
            "/v1/models": listing(owned_by="llamacpp", status={"value": "unloaded"}),
            "/props": {"role": "router", "default_generation_settings": {"n_ctx": 0}},
        },
        Capacity(context_window=None, slots=1),
    ),
    "vLLM": (
        {"/v1/models": listing(owned_by="vllm", max_model_len=4096)},
        Capacity(context_window=4096),
    ),
    "OpenRouter": ({"/v1/models": listing(context_length=131072)}, Capacity(context_window=131072)),
    "LM Studio": (
        {
            "/v1/models": listing(owned_by="organization_owner"),
            "/api/v0/models": listing(
                state="loaded", max_context_length=131072, loaded_context_length=8192
            ),
        },
        Capacity(context_window=8192),
    ),
    "LM Studio, older": (
        {"/v1/models": listing(), "/api/v0/models": listing(max_context_length=4096)},
        Capacity(context_window=4096),
    ),
    "LM Studio, not loaded": (
        {
            "/v1/models": listing(),
            "/api/v0/models": listing(state="not-loaded", max_context_length=131072),
        },
        Capacity(),
    ),
    "one that says nothing": ({"/v1/models": listing(owned_by="openai")}, Capacity()),
    "nonsense": (
        {
            "/v1/models": {
                "data": [None, {"id": [], "meta": 3}, {"id": MODEL, "meta": {"n_ctx": -1}}]
            },
            "/props": {"default_generation_settings": [], "total_slots": "many"},
            "/api/v0/models": {"data": {"id": MODEL}},
        },
        Capacity(slots=1),
    ),
    "no object": ({"/v1/models": [], "/props": 7, "/api/v0/models": None}, Capacity()),
}


@pytest.mark.parametrize("case", SAID)
async def test_a_server_is_asked_in_its_own_way(
    server: ModelServer, openai: OpenAI, case: str
) -> None:
    server.otherwise_at, said = SAID[case]

    assert await openai.capacity(MODEL) == said


LLAMA_CPP_SEES = {**LLAMA_CPP_PROPS, "modalities": {"vision": True, "audio": False}}
SEES: dict[str, tuple[dict[str, Any], bool | None]] = {
    "llama.cpp": ({"/v1/models": LLAMA_CPP_MODELS, "/props": LLAMA_CPP_SEES}, True),
    "llama.cpp, blind": (
        {
            "/v1/models": LLAMA_CPP_MODELS,
            "/props": {**LLAMA_CPP_PROPS, "modalities": {"vision": False}},
        },
        False,
    ),
    "OpenRouter": (
        {"/v1/models": listing(architecture={"input_modalities": ["text", "image"]})},
        True,
    ),
    "OpenRouter, blind": (
        {"/v1/models": listing(architecture={"input_modalities": ["text"]})},
        False,
    ),
    "LM Studio": ({"/v1/models": listing(), "/api/v0/models": listing(type="vlm")}, True),
    "LM Studio, blind": ({"/v1/models": listing(), "/api/v0/models": listing(type="llm")}, False),
    "one that says nothing": ({"/v1/models": listing()}, None),
    "nonsense": ({"/v1/models": listing(architecture=7, type=[])}, None),
}


@pytest.mark.parametrize("case", SEES)
async def test_whether_a_model_sees_is_read_from_what_its_server_says(
    server: ModelServer, openai: OpenAI, case: str
) -> None:
    server.otherwise_at, sees = SEES[case]

    assert (await openai.capacity(MODEL)).sees is sees


@pytest.mark.parametrize(
    ("capabilities", "sees"),
    [(["completion", "vision"], True), (["completion"], False), (None, None)],
)
async def test_ollama_says_whether_a_model_sees(
    server: ModelServer, ollama: Ollama, capabilities: Any, sees: bool | None
) -> None:
    server.otherwise_at = {"/api/show": {"capabilities": capabilities}}

    assert (await ollama.capacity(MODEL)).sees is sees


async def test_who_refuses_a_picture_is_not_sent_another(
    server: ModelServer, openai: OpenAI
) -> None:
    picture = PromptPicture(
        media_type="image/png", width=1, height=1, base64_sha256="", base64="QUJD"
    )
    seen = PromptMessage(role="user", content="See:", pictures=(picture,))
    server.refuse(500, "image input is not supported - hint: you may need to provide the mmproj")

    await failure_of(openai, openai.render(replace(asking("go"), messages=(seen,))))

    assert (await openai.capacity(MODEL)).sees is False


@pytest.mark.parametrize(
    ("shown", "running", "window"),
    [
        ({"general.architecture": "llama", "llama.context_length": 8192}, [], 8192),
        ({"gemma3.context_length": 4096}, [], 4096),
        ({}, [{"name": MODEL, "context_length": 2048}], 2048),
        ({"x.context_length": 8192}, [{"name": "else:latest", "context_length": 2048}], 8192),
        ({"x.context_length": "many"}, [{"name": MODEL}, None], None),
    ],
    ids=["trained", "another architecture", "loaded", "another is loaded", "nonsense"],
)
async def test_ollama_tells_what_a_model_is_loaded_with_and_can_be(
    server: ModelServer, ollama: Ollama, shown: dict[str, Any], running: Any, window: int | None
) -> None:
    server.otherwise_at = {"/api/show": {"model_info": shown}, "/api/ps": {"models": running}}

    assert await ollama.capacity("scripted") == Capacity(context_window=window)


async def test_what_somebody_else_loaded_counts_only_after_an_own_call(
    server: ModelServer, ollama: Ollama
) -> None:
    server.otherwise_at = {
        "/api/show": {"model_info": {"x.context_length": 8192}},
        "/api/ps": {"models": [{"name": MODEL, "context_length": 4096}]},
    }

    before = await ollama.capacity(MODEL)
    server.answer(Say("hi"), Done())
    await collect(ollama, ollama.render(asking("go")))
    after = await ollama.capacity(MODEL)

    assert (before.context_window, after.context_window) == (8192, 4096)


async def test_what_is_known_is_not_asked_again_until_the_server_was_away(
    server: ModelServer, openai: OpenAI
) -> None:
    server.otherwise_at = {"/v1/models": listing(max_model_len=4096)}

    known = [await openai.capacity(MODEL) for _ in range(3)]
    asked = len(server.requests)
    server.otherwise_at = {"/v1/models": listing(max_model_len=2048)}
    server.refuse(503, "Loading model")
    await failure_of(openai, openai.render(asking("go")))

    assert (known, asked) == ([Capacity(context_window=4096)] * 3, 1)
    assert await openai.capacity(MODEL) == Capacity(context_window=2048)


async def test_what_a_server_said_holds_while_it_is_away(server: ModelServer) -> None:
    server.otherwise_at = {"/v1/models": listing(max_model_len=4096)}
    model = OpenAI(server.openai_url, api_key=None, chunk_timeout=60)
    await model.capacity(MODEL)

    await server.close()
    await failure_of(model, model.render(asking("go")))

    assert await model.capacity(MODEL) == Capacity(context_window=4096)
    assert await model.capacity("other") == Capacity()
    await model.aclose()


async def test_one_that_did_not_say_is_asked_again_soon(
    server: ModelServer, openai: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "UNKNOWN_SECONDS", 0.0)
    server.otherwise_at = {"/v1/models": listing()}

    unknown = await openai.capacity(MODEL)
    server.otherwise_at = {"/v1/models": listing(max_model_len=4096)}

    assert (unknown, await openai.capacity(MODEL)) == (Capacity(), Capacity(context_window=4096))


async def test_a_window_is_learned_from_a_refusal_where_nobody_tells_it(
    server: ModelServer, openai: OpenAI
) -> None:
    server.refuse(400, "This model's maximum context length is 4096 tokens. However, ...")

    await failure_of(openai, openai.render(asking("go")))

    assert await openai.capacity(MODEL) == Capacity(context_window=4096)
    assert await openai.capacity("other") == Capacity()


@pytest.mark.parametrize(
    ("status", "error", "state"),
    [
        (503, {"error": {"message": "Loading model"}}, "loading"),
        (503, {"error": "no healthy upstream"}, "away"),
        (404, {"error": "File Not Found"}, "ready"),
        (401, {"error": "wrong key"}, "ready"),
    ],
)
async def test_a_probe_tells_loading_from_away(
    server: ModelServer, openai: OpenAI, ollama: Ollama, status: int, error: Any, state: str
) -> None:
    for path in ("/v1/models", "/api/version"):
        server.refuses_at[path] = (status, json.dumps(error))

    assert (await openai.readiness(), await ollama.readiness()) == (state, state)
