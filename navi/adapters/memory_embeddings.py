"""Embed texts for stores of memories, with time-outs and per-text fallback."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import structlog

from navi.domain.memory.memory import Vector
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.embedding import Embedder, Embedders

log = structlog.get_logger()

BATCH_TEXTS = 32  # that are embedded at a time: a few seconds on a machine without a GPU
# A search comes before a turn: rather without the model than late, and what
# was found by words must come in time (`recall.RECALL_SECONDS`). Loading one can take minutes.
SEARCH_SECONDS = 2.0

# Statuses that are about a text, not about the server.
REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


async def embed_question(embedders: Embedders, query: str) -> tuple[Embedder, Vector] | None:
    """The vector of a question, and the model it is from; None where that cannot be had at once."""
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            embedder = await embedders.current()
            if embedder is None:
                return None
            (vector,) = await embedder.embed((query,))
            return embedder, vector
    except (TimeoutError, ModelFailure) as failure:
        log.info("searched_without_embedding", reason=_reason(failure))
        return None


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> tuple[Vector | None, ...] | None:
    """A vector a text, None for one that the model refuses; None where it answers none of them."""
    try:
        vectors = await _embed_each(embedder, texts)
        if not any(vectors):
            # Is it the texts, or does it refuse everything just now? They would be given up for ever.
            await embedder.embed(("navi",))
    except ModelFailure as failure:
        log.info("memories_not_embedded", model=embedder.model, reason=_reason(failure))
        return None
    return vectors


async def _embed_each(embedder: Embedder, texts: Sequence[str]) -> tuple[Vector | None, ...]:
    try:
        return await embedder.embed(texts)
    except ModelFailure as failure:
        if failure.status not in REFUSALS:
            raise
    if len(texts) == 1:
        return (None,)
    # Which of them it refuses the server does not say.
    half = len(texts) // 2
    first = await _embed_each(embedder, texts[:half])
    return (*first, *await _embed_each(embedder, texts[half:]))


def _reason(failure: Exception) -> str:
    return failure.kind if isinstance(failure, ModelFailure) else type(failure).__name__
