"""What the settings say of model servers."""

import asyncio

from navi.adapters.llm.detect import ModelSettings, parse_backends
from navi.domain.errors import BadInput
from navi.ports import Capacity
from navi.settings import Settings


async def model_settings(settings: Settings) -> ModelSettings:
    """What the settings say of model servers, with the file that they name.

    Raises:
        BadInput: the file cannot be read or is not understood.
    """
    path = settings.ollama_backends_file
    try:
        data = None if path is None else await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise BadInput("OLLAMA_BACKENDS_FILE", f"{path}: {error.strerror}") from error
    backends = () if data is None else parse_backends(data)
    return ModelSettings(
        llm=settings.llm,
        model=settings.model,
        ollama_host=settings.ollama_host,
        ollama_backends=backends,
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        chunk_timeout=settings.llm_chunk_timeout,
        num_ctx=settings.ollama_num_ctx,
        limits=Capacity(context_window=settings.context_window, slots=settings.model_slots),
    )
