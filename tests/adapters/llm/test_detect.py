"""Which backend is taken, and what is wrong with a list of servers."""

import socket
from collections.abc import Generator
from typing import Any

import pytest

from navi.adapters.llm import detect as detection
from navi.adapters.llm.detect import Detected, detect
from navi.adapters.llm.model_settings import (
    ModelSettings,
    OllamaBackend,
    OpenAIBackend,
    parse_backends,
)
from navi.adapters.system import SystemClock
from navi.domain.vocabulary.errors import BadInput
from tests.support.model_server import MODEL, ModelServer


@pytest.fixture
def nowhere() -> Generator[str, None, None]:
    """An address where nobody listens, held so that nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


async def found(**settings: Any) -> Detected:
    """What is detected, with its connections closed again."""
    detected = await detect(ModelSettings(**settings), clock=SystemClock())
    await detected.aclose()
    return detected


async def test_an_ollama_that_answers_is_taken(server: ModelServer) -> None:
    detected = await detect(ModelSettings(ollama_host=server.url), clock=SystemClock())
    target = await detected.servers.choose((), [])
    await detected.aclose()

    assert target is not None
    assert (detected.backend, detected.reason) == ("ollama", f"ollama@{server.url} answers")
    assert (target.model_name, target.model.chunk_timeout) == (MODEL, 600.0)


async def test_without_ollama_the_other_address_is_taken_and_without_it_the_demo(
    nowhere: str,
) -> None:
    openai = await found(ollama_host=nowhere, openai_base_url="http://box/v1")
    demo = await found(ollama_host=nowhere, model="qwen3")

    assert (openai.backend, openai.servers.backends) == ("openai", ("openai@http://box/v1",))
    assert openai.reason == f"ollama@{nowhere} does not answer; OPENAI_BASE_URL is set"
    assert (demo.backend, await demo.servers.default_model()) == ("demo", "demo")
    assert demo.reason.endswith("OPENAI_BASE_URL is not set: the demo model answers")


async def test_an_ollama_that_hangs_does_not_hold_up_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detection, "DETECT_SECONDS", 0.05)

    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and nobody answers
        port = silent.getsockname()[1]
        detected = await found(ollama_host=f"127.0.0.1:{port}")

    assert detected.backend == "demo"


async def test_a_choice_is_not_second_guessed(nowhere: str) -> None:
    assert (await found(llm="ollama", ollama_host=nowhere)).backend == "ollama"
    assert (await found(llm="demo")).backend == "demo"


async def test_every_server_of_the_list_is_used(nowhere: str, server: ModelServer) -> None:
    backends = (
        OllamaBackend(url=nowhere, models=("big",)),
        OllamaBackend(url=server.url, headers={"Authorization": "Bearer let-me-in"}),
    )

    detected = await detect(ModelSettings(ollama_backends=backends), clock=SystemClock())
    target = await detected.servers.choose(("small",), [])
    await detected.aclose()

    assert detected.servers.backends == (f"ollama@{nowhere}", f"ollama@{server.url}")
    assert target is not None
    assert target.model.backend == f"ollama@{server.url}"
    assert server.requests[0].headers["authorization"] == "Bearer let-me-in"


async def test_a_timeout_that_the_user_set_holds_for_every_backend() -> None:
    detected = await detect(
        ModelSettings(llm="ollama", model="m", chunk_timeout=7), clock=SystemClock()
    )
    target = await detected.servers.choose((), [])
    await detected.aclose()

    assert target is not None
    assert target.model.chunk_timeout == 7


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"llm": "openai"}, "OPENAI_BASE_URL"),
        ({"llm": "openai", "openai_base_url": "box/v1"}, "OPENAI_BASE_URL"),
        (
            {"llm": "openai", "openai_base_url": "http://box", "openai_api_key": "a\nb"},
            "OPENAI_API_KEY",
        ),
        ({"ollama_host": "ftp://box"}, "OLLAMA_HOST"),
        (
            {
                "llm": "openai",
                "openai_backends": (OpenAIBackend(url="http://a"), OpenAIBackend(url="b")),
            },
            "OPENAI_BACKENDS_FILE: entry 2",
        ),
        (
            {"llm": "openai", "openai_backends": (OpenAIBackend(url="http://a"),) * 2},
            "OPENAI_BACKENDS_FILE",
        ),
        (
            {"llm": "demo", "embedding_base_url": "http://a", "embedding_api_key": "a\nb"},
            "OPENAI_EMBEDDING_API_KEY",
        ),
        (
            {"ollama_backends": (OllamaBackend(url="http://a"), OllamaBackend(url="ftp://b"))},
            "OLLAMA_BACKENDS_FILE: entry 2",
        ),
        (
            {"ollama_backends": (OllamaBackend(url="http://a"), OllamaBackend(url="http://a/"))},
            "OLLAMA_BACKENDS_FILE",
        ),
    ],
)
async def test_a_setting_that_is_wrong_is_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        await found(**settings)

    assert refused.value.field == field


async def test_every_openai_server_of_the_list_is_used_with_its_own_key(
    nowhere: str, server: ModelServer
) -> None:
    backends = (
        OpenAIBackend(url=nowhere, models=("big",)),
        OpenAIBackend(url=server.openai_url, api_key="sk-of-the-second", headers={"X-Room": "7"}),
    )

    detected = await detect(
        ModelSettings(ollama_host=nowhere, openai_backends=backends), clock=SystemClock()
    )
    target = await detected.servers.choose(("small",), [])
    assert target is not None
    await target.model.models()
    await detected.aclose()

    sent = server.requests[0].headers
    assert detected.reason.endswith("OPENAI_BACKENDS_FILE is set")
    assert detected.servers.backends == (f"openai@{nowhere}", f"openai@{server.openai_url}")
    assert (sent["authorization"], sent["x-room"]) == ("Bearer sk-of-the-second", "7")


@pytest.mark.parametrize(
    ("chat", "key", "sent"),
    [
        ("http://127.0.0.1:1/v1", "sk-of-its-own", "Bearer sk-of-its-own"),
        ("http://127.0.0.1:1/v1", None, "Bearer sk-to-chat"),
        ("http://elsewhere/v1", None, None),  # a key is not told to another machine
    ],
)
async def test_another_server_may_embed(
    server: ModelServer, chat: str, key: str | None, sent: str | None
) -> None:
    detected = await detect(
        ModelSettings(
            llm="openai",
            openai_base_url=chat,
            openai_api_key="sk-to-chat",
            embedding_base_url=server.openai_url,
            embedding_api_key=key,
        ),
        clock=SystemClock(),
    )
    [embeddings] = detected.embeddings
    names = await embeddings.embedding_models()
    await detected.aclose()

    assert names == (MODEL,)  # whatever its name: the server is there for nothing else
    assert server.requests[0].headers.get("authorization") == sent


def test_a_list_of_openai_servers_is_read() -> None:
    data = b'[{"url":"http://a/v1","api_key":"k"},{"url":"http://b/v1","models":["m"]}]'

    assert parse_backends("OPENAI_BACKENDS_FILE", data, OpenAIBackend) == (
        OpenAIBackend(url="http://a/v1", api_key="k"),
        OpenAIBackend(url="http://b/v1", models=("m",)),
    )


def test_a_list_of_servers_is_read() -> None:
    data = b'[{"url":"http://a"},{"url":"http://b","models":["m"],"headers":{"X":"y"}}]'

    assert parse_backends("OLLAMA_BACKENDS_FILE", data, OllamaBackend) == (
        OllamaBackend(url="http://a"),
        OllamaBackend(url="http://b", models=("m",), headers={"X": "y"}),
    )


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"[]", "names no server"),
        (b"[", "truncated"),
        (b'[{"url":"http://a"},{}]', r"missing required field `url` - at `\$\[1\]`"),
        (b'[{"url":"http://a","modles":[]}]', "unknown field `modles`"),
        (b'[{"url":7}]', r"got `int` - at `\$\[0\].url`"),
    ],
)
def test_a_list_of_servers_that_is_wrong_says_where(data: bytes, cause: str) -> None:
    with pytest.raises(BadInput, match=cause):
        parse_backends("OLLAMA_BACKENDS_FILE", data, OllamaBackend)
