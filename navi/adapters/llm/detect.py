"""Detect the model servers of the settings, or with ``auto`` the first that answers."""

from urllib.parse import urlsplit

from msgspec import Struct

from navi.adapters.llm.backends import BACKENDS, Backend, Opened, ollamas_of, opened_ollamas
from navi.adapters.llm.embeddings import EmbeddingServer
from navi.adapters.llm.model_settings import ModelSettings
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.servers import ServerPool
from navi.ports.clock import Clock

DETECT_SECONDS = 2.0  # how long an Ollama may take to answer


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


async def detect(settings: ModelSettings, *, clock: Clock) -> Detected:
    """The servers that the settings name or, with ``auto``, the first kind that is there.

    Raises:
        BadInput: a setting is not usable or missing; names it.
    """
    if settings.llm == "auto":
        return await _auto(settings, clock)
    return _detected(settings.llm, None, settings, clock, f"NAVI_LLM={settings.llm}")


async def _auto(settings: ModelSettings, clock: Clock) -> Detected:
    ollamas = ollamas_of(settings)
    for server in ollamas:
        if await server.answers(within=DETECT_SECONDS):
            opened = opened_ollamas(ollamas, settings)
            return _detected("ollama", opened, settings, clock, f"{server.backend} answers")
    for server in ollamas:
        await server.aclose()
    absent = f"{', '.join(server.backend for server in ollamas)} does not answer"
    if settings.openai_backends or settings.openai_base_url:
        name = "OPENAI_BACKENDS_FILE" if settings.openai_backends else "OPENAI_BASE_URL"
        return _detected("openai", None, settings, clock, f"{absent}; {name} is set")
    reason = f"{absent} and OPENAI_BASE_URL is not set: the demo model answers"
    return _detected("demo", None, settings, clock, reason)


def _detected(
    backend: Backend, opened: Opened | None, settings: ModelSettings, clock: Clock, reason: str
) -> Detected:
    opened = opened or BACKENDS[backend].open(settings)
    pool = ServerPool(
        opened.servers,
        default_model=opened.default_model,
        clock=clock,
        settings=settings.limits,
    )
    own = _own_embeddings(settings)
    return Detected(
        backend=backend,
        servers=pool,
        reason=reason,
        embeddings=opened.embeddings if own is None else (own.only_embeddings,),
        own_embeddings=own,
    )


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
