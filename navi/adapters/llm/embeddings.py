"""Embeddings from model servers: Ollama's ``/api/embed``, ``/embeddings`` of OpenAI-compatible ones."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from navi.adapters.llm.endpoint import MAX_ANSWER_BYTES, Endpoint
from navi.adapters.llm.ollama_models import OllamaShown, OllamaTags
from navi.adapters.llm.wire_json import read
from navi.domain.memory.memory import Vector
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.ids import CallId

ANSWER_SECONDS = 10.0  # for lists and capabilities, which need no model
EMBED_SECONDS = 120.0  # for a batch; loading the model is part of the first one
MAX_TEXT = 8_000  # characters of a text that are sent: within the context of common models
MAX_DIMENSION = 16_000  # what pgvector's type holds
MAX_FLOAT32 = 3.4e38
MAX_SHOWN = 20  # models whose capabilities are asked for one by one
T = TypeVar("T")

# For servers that do not say what their models can do; the embedding models people run.
_EMBEDS = re.compile(r"(?i:embed|minilm|mxbai|(^|[/_.-])(bge|e5|gte)([_.:-]|$))")


class EmbeddingServer(Protocol):
    """A model server that can be asked for embeddings."""

    async def embedding_models(self) -> tuple[str, ...]:
        """Models that seem made for it, in the server's order.

        Raises:
            ModelFailure: it does not answer.
        """
        ...

    async def embed(
        self, model: str, texts: Sequence[str], *, call_id: CallId
    ) -> tuple[Vector, ...]:
        """One vector a text, all of one dimension; no request without texts.

        Raises:
            ModelFailure: it does not answer, refuses a text, or answers nonsense.
        """
        ...


class OllamaEmbeddings:
    """Embeddings of an Ollama."""

    def __init__(self, endpoint: Endpoint) -> None:
        """The endpoint is the caller's, who closes it."""
        self._endpoint = endpoint

    async def embedding_models(self) -> tuple[str, ...]:
        answer = await self._endpoint.fetch("/api/tags", within=ANSWER_SECONDS)
        # What navi remembers must not go to somebody else's machine without being asked for.
        listed = [tag for tag in read(answer, OllamaTags).models if not tag.remote_host]
        told = {
            tag.name: "embedding" in tag.capabilities if tag.capabilities else None
            for tag in listed
        }
        found = [name for name, embeds in told.items() if embeds or _maybe(name, embeds)]
        if found:
            return tuple(found)
        unknown = [name for name, embeds in told.items() if embeds is None]
        return tuple([name for name in unknown[:MAX_SHOWN] if await self._embeds(name)])

    async def embed(
        self, model: str, texts: Sequence[str], *, call_id: CallId
    ) -> tuple[Vector, ...]:
        if not texts:
            return ()
        body = {"model": model, "input": [text[:MAX_TEXT] for text in texts], "truncate": True}
        answer = await _ask(self._endpoint, "/api/embed", msgspec.json.encode(body), call_id)
        return _checked(_read(self._endpoint, answer, _Embedded).embeddings, count=len(texts))

    async def _embeds(self, model: str) -> bool:
        body = msgspec.json.encode({"model": model})
        answer = await self._endpoint.fetch("/api/show", body, within=ANSWER_SECONDS)
        return "embedding" in (read(answer, OllamaShown).capabilities or ())


class OpenAIEmbeddings:
    """Embeddings of an OpenAI-compatible server, whose list of models says nothing but names."""

    def __init__(self, endpoint: Endpoint, *, whatever_its_name: bool = False) -> None:
        """The endpoint is the caller's, who closes it.

        Args:
            whatever_its_name: a model whose name does not tell is tried too; else it may be one to
                chat with, which would be loaded for nothing.
        """
        self._endpoint = endpoint
        self._whatever_its_name = whatever_its_name

    async def embedding_models(self) -> tuple[str, ...]:
        answer = await self._endpoint.fetch("/models", within=ANSWER_SECONDS)
        names = tuple(model.id for model in read(answer, _Models).data)
        found = tuple(name for name in names if _EMBEDS.search(name))
        return found or (names if self._whatever_its_name else ())

    async def embed(
        self, model: str, texts: Sequence[str], *, call_id: CallId
    ) -> tuple[Vector, ...]:
        if not texts:
            return ()
        body = {
            "model": model,
            "input": [text[:MAX_TEXT] for text in texts],
            "encoding_format": "float",
        }
        answer = await _ask(self._endpoint, "/embeddings", msgspec.json.encode(body), call_id)
        data = _read(self._endpoint, answer, _Answered).data
        # Sorting is stable: servers that give no index keep the order.
        data.sort(key=lambda item: item.index)
        return _checked([item.embedding for item in data], count=len(texts))


def _maybe(name: str, embeds: bool | None) -> bool:
    return embeds is None and _EMBEDS.search(name) is not None


class _Embedded(Struct):
    embeddings: list[list[float]]


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


class _Item(Struct):
    embedding: list[float]
    index: int = 0


class _Answered(Struct):
    data: list[_Item]


async def _ask(endpoint: Endpoint, path: str, body: bytes, call_id: CallId) -> bytes:
    answer = bytearray()
    try:
        async with (
            asyncio.timeout(EMBED_SECONDS),
            aclosing(endpoint.post(path, body, purpose="memory", call_id=call_id)) as chunks,
        ):
            async for chunk in chunks:
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise ModelFailure("protocol", f"an answer above {MAX_ANSWER_BYTES} bytes")
    except TimeoutError as error:
        raise ModelFailure("connection", f"no embeddings within {EMBED_SECONDS:g} s") from error
    return bytes(answer)


def _read(endpoint: Endpoint, answer: bytes, kind: type[T]) -> T:
    try:
        return read(answer, kind)
    except ModelFailure as failure:
        endpoint.hide_secrets(failure)
        raise


def _checked(vectors: Sequence[Sequence[float]], *, count: int) -> tuple[Vector, ...]:
    if len(vectors) != count:
        raise ModelFailure("protocol", f"{len(vectors)} embeddings for {count} texts")
    dimension = len(vectors[0])
    if not 0 < dimension <= MAX_DIMENSION:
        raise ModelFailure("protocol", f"embeddings of {dimension} numbers")
    for vector in vectors:
        if len(vector) != dimension:
            raise ModelFailure("protocol", "embeddings of different dimensions")
        # Beyond that it is infinite as float32.
        if not all(-MAX_FLOAT32 <= number <= MAX_FLOAT32 for number in vector):
            raise ModelFailure("protocol", "embeddings with numbers that are too large")
    return tuple(tuple(vector) for vector in vectors)
