"""Every kind of model server: how its servers are opened, and what writes the requests to them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

from navi.adapters.llm import demo, ollama, openai, openai_request
from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.embeddings import EmbeddingServer
from navi.adapters.llm.model_settings import ModelSettings, OllamaBackend, OpenAIBackend
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.servers import PooledServer
from navi.domain.context.prompt import ModelRequest
from navi.domain.vocabulary.errors import BadInput

Backend = Literal["ollama", "openai", "demo"]


class Opened(Struct, frozen=True, kw_only=True):
    """Servers of one kind; ``embeddings`` of those that can embed."""

    servers: tuple[PooledServer, ...]
    default_model: str | None
    embeddings: tuple[EmbeddingServer, ...] = ()


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of model server.

    Attributes:
        open: the servers that the settings name; raises BadInput where they name none that is usable.
        renderers: by their logged name. One that has written a request is never changed: what would be
            written in another way gets another name, and the old one stays.
    """

    open: Callable[[ModelSettings], Opened]
    renderers: Mapping[str, Callable[[ModelRequest], bytes]]


def ollamas_of(settings: ModelSettings) -> tuple[Ollama, ...]:
    """The Ollama servers of the settings.

    Raises:
        BadInput: a setting is not usable; names it.
    """
    timeout = _or_default(settings.chunk_timeout, ollama.DEFAULT_CHUNK_TIMEOUT)
    if not settings.ollama_backends:
        url = settings.ollama_host
        return (Ollama("OLLAMA_HOST", url, headers={}, chunk_timeout=timeout),)
    servers = [
        Ollama(
            f"OLLAMA_BACKENDS_FILE: entry {number}",
            entry.url,
            headers=entry.headers,
            chunk_timeout=timeout,
        )
        for number, entry in enumerate(settings.ollama_backends, start=1)
    ]
    if len({server.backend for server in servers}) < len(servers):
        raise BadInput("OLLAMA_BACKENDS_FILE", "names a server twice")
    return tuple(servers)


def opened_ollamas(servers: Sequence[Ollama], settings: ModelSettings) -> Opened:
    """Ollama servers as they are used."""
    offered = _offered(settings.ollama_backends, servers)
    return Opened(
        servers=tuple(
            PooledServer(model=model, models=models, num_ctx=settings.num_ctx, assumed_slots=1)
            for model, models in zip(servers, offered, strict=True)
        ),
        default_model=settings.model,
        embeddings=tuple(model.embeddings for model in servers),
    )


def _open_openais(settings: ModelSettings) -> Opened:
    servers = _openais(settings)
    offered = _offered(settings.openai_backends, servers)
    return Opened(
        servers=tuple(
            PooledServer(model=model, models=models)
            for model, models in zip(servers, offered, strict=True)
        ),
        default_model=settings.model,
        embeddings=tuple(model.embeddings for model in servers),
    )


def _open_demo(settings: ModelSettings) -> Opened:
    timeout = _or_default(settings.chunk_timeout, demo.DEFAULT_CHUNK_TIMEOUT)
    model = DemoModel(pace=settings.demo_pace, chunk_timeout=timeout)
    # It reads whatever it is given; so its window is the one that can be set.
    server = PooledServer(model=model, num_ctx=settings.num_ctx)
    return Opened(servers=(server,), default_model=demo.MODEL)


def _openais(settings: ModelSettings) -> tuple[OpenAI, ...]:
    timeout = _or_default(settings.chunk_timeout, openai.DEFAULT_CHUNK_TIMEOUT)
    if not settings.openai_backends:
        if not settings.openai_base_url:
            raise BadInput("OPENAI_BASE_URL", "is needed for NAVI_LLM=openai")
        url, key = settings.openai_base_url, settings.openai_api_key
        return (OpenAI(url, api_key=key, chunk_timeout=timeout),)
    servers = [
        OpenAI(
            entry.url,
            api_key=entry.api_key,
            chunk_timeout=timeout,
            headers=entry.headers,
            fields=(
                f"OPENAI_BACKENDS_FILE: entry {number}",
                f"OPENAI_BACKENDS_FILE: entry {number}: api_key",
            ),
        )
        for number, entry in enumerate(settings.openai_backends, start=1)
    ]
    if len({server.backend for server in servers}) < len(servers):
        raise BadInput("OPENAI_BACKENDS_FILE", "names a server twice")
    return tuple(servers)


def _offered(
    entries: Sequence[OllamaBackend | OpenAIBackend], servers: Sequence[object]
) -> list[tuple[str, ...]]:
    """The models that each server is used for; without a list of servers all that it has."""
    return [entry.models for entry in entries] or [() for _ in servers]


def _or_default(chosen: float | None, default: float) -> float:
    return default if chosen is None else chosen


BACKENDS: Mapping[Backend, Kind] = {
    "ollama": Kind(
        open=lambda settings: opened_ollamas(ollamas_of(settings), settings),
        renderers={
            ollama.RENDERER_WITHOUT_BOUND: partial(ollama.render, bounds=False),
            ollama.RENDERER: partial(ollama.render, bounds=True),
        },
    ),
    "openai": Kind(
        open=_open_openais,
        renderers={
            name: partial(openai_request.render, form=form)
            for name, form in openai_request.FORMS.items()
        },
    ),
    "demo": Kind(
        open=_open_demo,
        renderers={
            demo.RENDERER_WITH_ATTACHED: partial(demo.render, below=False),
            demo.RENDERER: partial(demo.render, below=True),
        },
    ),
}
