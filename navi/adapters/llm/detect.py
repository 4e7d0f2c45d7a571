"""Detect the model servers of the settings, or with ``auto`` the first that answers."""

from collections.abc import Sequence
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from navi.adapters.llm import demo, ollama, openai
from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.embeddings import EmbeddingServer
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.servers import ASSUMED_SLOTS, PooledServer, ServerPool
from navi.domain.errors import BadInput
from navi.ports.clock import Clock
from navi.ports.language_model import Capacity

DETECT_SECONDS = 2.0  # how long an Ollama may take to answer

Backend = Literal["ollama", "openai", "demo"]
T = TypeVar("T", bound=Struct)


class OllamaBackend(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``OLLAMA_BACKENDS_FILE``."""

    url: str
    models: tuple[str, ...] = ()
    headers: dict[str, str] = {}


class OpenAIBackend(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``OPENAI_BACKENDS_FILE``."""

    url: str
    api_key: str | None = None
    models: tuple[str, ...] = ()
    headers: dict[str, str] = {}


class ModelSettings(Struct, frozen=True, kw_only=True):
    """What the user set, see section 2 of the contract.

    Attributes:
        llm: ``NAVI_LLM``.
        model: ``NAVI_MODEL``.
        ollama_backends: of ``OLLAMA_BACKENDS_FILE``, instead of ``ollama_host``; empty without it.
        openai_backends: of ``OPENAI_BACKENDS_FILE``, instead of ``openai_base_url``.
        embedding_base_url: ``OPENAI_EMBEDDING_BASE_URL``; None for the servers to chat with.
        embedding_api_key: ``OPENAI_EMBEDDING_API_KEY``.
        chunk_timeout: seconds, ``LLM_STREAM_CHUNK_TIMEOUT``; None where the user did not set it: then
            each backend has its own, 60 or, for Ollama, 600.
        num_ctx: ``OLLAMA_NUM_CTX``, tokens.
        limits: ``NAVI_CONTEXT_WINDOW`` and ``NAVI_MODEL_SLOTS``.
        demo_pace: seconds between two pieces of the demo model's text.
    """

    llm: Literal["auto", "ollama", "openai", "demo"] = "auto"
    model: str | None = None
    ollama_host: str = "http://127.0.0.1:11434"
    ollama_backends: tuple[OllamaBackend, ...] = ()
    openai_base_url: str | None = None
    openai_api_key: str | None = None
    openai_backends: tuple[OpenAIBackend, ...] = ()
    embedding_base_url: str | None = None
    embedding_api_key: str | None = None
    chunk_timeout: float | None = None
    num_ctx: int = 32768
    limits: Capacity = Capacity()
    demo_pace: float = demo.DEFAULT_PACE


class Detected(Struct, frozen=True, kw_only=True):
    """The servers to use; ``reason`` says to the user why these.

    Attributes:
        embeddings: of those that can embed; none for the demo model, unless one is set up.
        own_embeddings: the server that is there for embeddings alone.
    """

    backend: Backend
    servers: ServerPool
    reason: str
    embeddings: tuple[EmbeddingServer, ...] = ()
    own_embeddings: OpenAI | None = None

    async def aclose(self) -> None:
        """Close the connections to all servers."""
        await self.servers.aclose()
        if self.own_embeddings is not None:
            await self.own_embeddings.aclose()


def parse_backends(field: str, data: bytes, entry: type[T]) -> tuple[T, ...]:
    """The content of ``OLLAMA_BACKENDS_FILE`` or ``OPENAI_BACKENDS_FILE``.

    Raises:
        BadInput: not a list of servers; names the entry and what is wrong with it.
    """
    try:
        backends = msgspec.json.decode(data, type=list[entry])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(field, str(error)) from error
    if not backends:
        raise BadInput(field, "names no server")
    return tuple(backends)


async def detect(settings: ModelSettings, *, clock: Clock) -> Detected:
    """The servers that the settings name or, with ``auto``, the first kind that is there.

    Raises:
        BadInput: a setting is not usable or missing; names it.
    """
    match settings.llm:
        case "ollama":
            return _detected("ollama", _ollamas(settings), settings, clock, "NAVI_LLM=ollama")
        case "openai":
            return _detected("openai", _openais(settings), settings, clock, "NAVI_LLM=openai")
        case "demo":
            return _detected("demo", (_demo(settings),), settings, clock, "NAVI_LLM=demo")
        case "auto":
            return await _auto(settings, clock)


async def _auto(settings: ModelSettings, clock: Clock) -> Detected:
    ollamas = _ollamas(settings)
    for server in ollamas:
        if await server.answers(within=DETECT_SECONDS):
            reason = f"{server.backend} answers"
            return _detected("ollama", ollamas, settings, clock, reason)
    for server in ollamas:
        await server.aclose()
    absent = f"{', '.join(server.backend for server in ollamas)} does not answer"
    if settings.openai_backends or settings.openai_base_url:
        name = "OPENAI_BACKENDS_FILE" if settings.openai_backends else "OPENAI_BASE_URL"
        reason = f"{absent}; {name} is set"
        return _detected("openai", _openais(settings), settings, clock, reason)
    reason = f"{absent} and OPENAI_BASE_URL is not set: the demo model answers"
    return _detected("demo", (_demo(settings),), settings, clock, reason)


def _detected(
    backend: Backend,
    models: Sequence[Ollama | OpenAI | DemoModel],
    settings: ModelSettings,
    clock: Clock,
    reason: str,
) -> Detected:
    entries = {"ollama": settings.ollama_backends, "openai": settings.openai_backends, "demo": ()}
    offered = [entry.models for entry in entries[backend]]
    servers = [
        PooledServer(
            model=model,
            models=offered[place] if offered else (),
            # The demo model reads whatever it is given; so its window is the one that can be set.
            num_ctx=None if isinstance(model, OpenAI) else settings.num_ctx,
            assumed_slots=1 if isinstance(model, Ollama) else ASSUMED_SLOTS,
        )
        for place, model in enumerate(models)
    ]
    default_model = demo.MODEL if backend == "demo" else settings.model
    pool = ServerPool(servers, default_model=default_model, clock=clock, settings=settings.limits)
    own = _own_embeddings(settings)
    embeddings = tuple(m.embeddings for m in models if not isinstance(m, DemoModel))
    return Detected(
        backend=backend,
        servers=pool,
        reason=reason,
        embeddings=embeddings if own is None else (own.only_embeddings,),
        own_embeddings=own,
    )


def _ollamas(settings: ModelSettings) -> tuple[Ollama, ...]:
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


def _own_embeddings(settings: ModelSettings) -> OpenAI | None:
    """The server that is set up for embeddings; None where those to chat with are to embed."""
    url, key = settings.embedding_base_url, settings.embedding_api_key
    if url is None and (key is None or settings.openai_base_url is None):
        return None
    chat = settings.openai_base_url
    if key is None and chat is not None and urlsplit(chat).hostname == urlsplit(url or "").hostname:
        key = (
            settings.openai_api_key
        )  # which belongs to that machine, and is nobody else's business
    return OpenAI(
        url or chat or "",
        api_key=key,
        fields=("OPENAI_EMBEDDING_BASE_URL", "OPENAI_EMBEDDING_API_KEY"),
    )


def _demo(settings: ModelSettings) -> DemoModel:
    timeout = _or_default(settings.chunk_timeout, demo.DEFAULT_CHUNK_TIMEOUT)
    return DemoModel(pace=settings.demo_pace, chunk_timeout=timeout)


def _or_default(chosen: float | None, default: float) -> float:
    return default if chosen is None else chosen
