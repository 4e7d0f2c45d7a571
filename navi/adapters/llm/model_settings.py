"""What the user set about model servers, and the lists of servers in files."""

from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from navi.adapters.llm import demo
from navi.domain.vocabulary.errors import BadInput
from navi.ports.language_model import Capacity

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
