"""The model servers of the settings."""

import asyncio
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from navi.adapters.llm.model_settings import (
    ModelSettings,
    OllamaBackend,
    OpenAIBackend,
    parse_backends,
)
from navi.domain.vocabulary.errors import BadInput
from navi.ports.language_model import Capacity
from navi.settings import Settings

T = TypeVar("T", bound=Struct)


async def model_settings(settings: Settings) -> ModelSettings:
    """What the settings say of model servers, with the files that they name.

    Raises:
        BadInput: a file cannot be read or is not understood.
    """
    return ModelSettings(
        llm=settings.llm,
        model=settings.model,
        ollama_host=settings.ollama_host,
        ollama_backends=await _backends(
            "OLLAMA_BACKENDS_FILE", settings.ollama_backends_file, OllamaBackend
        ),
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        openai_backends=await _backends(
            "OPENAI_BACKENDS_FILE", settings.openai_backends_file, OpenAIBackend
        ),
        embedding_base_url=settings.openai_embedding_base_url,
        embedding_api_key=settings.openai_embedding_api_key,
        chunk_timeout=settings.llm_chunk_timeout,
        num_ctx=settings.ollama_num_ctx,
        limits=Capacity(context_window=settings.context_window, slots=settings.model_slots),
    )


async def _backends(field: str, path: Path | None, entry: type[T]) -> tuple[T, ...]:
    if path is None:
        return ()
    try:
        data = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise BadInput(field, f"{path}: {error.strerror}") from error
    return parse_backends(field, data, entry)
