"""An OpenAI-compatible server: what it is asked, and what is learned from how it refuses."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.llm.capacity import (
    KeptCapacity,
    is_llama_cpp,
    listed,
    of_lm_studio,
    of_props,
    sees_listed,
    window_listed,
)
from navi.adapters.llm.embeddings import OpenAIEmbeddings
from navi.adapters.llm.endpoint import Endpoint
from navi.adapters.llm.openai_reply import OpenAIReply, read_stream
from navi.adapters.llm.openai_request import Form, render, renderer_of
from navi.adapters.llm.wire_json import read
from navi.domain.context.prompt import ModelRequest
from navi.domain.vocabulary.errors import BadInput, ModelFailure
from navi.domain.vocabulary.events import Purpose
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import Capacity, ModelChunk, ServerState

DEFAULT_CHUNK_TIMEOUT = 60.0  # seconds; arguments of tool calls are streamed here
ANSWER_SECONDS = 10.0


class OpenAI:
    """One OpenAI-compatible server."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        chunk_timeout: float = DEFAULT_CHUNK_TIMEOUT,
        headers: Mapping[str, str] = MappingProxyType({}),
        fields: tuple[str, str] = ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ) -> None:
        """A server that is asked for nothing yet.

        Args:
            base_url: up to and including ``/v1``, as ``OPENAI_BASE_URL`` has it.
            headers: sent with every request; they overrule the key.
            fields: the settings that the address and the key are from.
            chunk_timeout: seconds of silence between two chunks; ``DEFAULT_CHUNK_TIMEOUT`` unless
                the user wants another.

        Raises:
            BadInput: the address or the key is not usable.
        """
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise BadInput(fields[1], "has characters that cannot be sent")
        key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._endpoint = Endpoint(fields[0], base_url.strip(), {**key, **headers})
        self._chunk_timeout = chunk_timeout
        self._form = Form()
        self._capacities = KeptCapacity(self._ask_capacity)

    @property
    def backend(self) -> str:
        return f"openai@{self._endpoint.address}"

    @property
    def renderer(self) -> str:
        return renderer_of(self._form)

    @property
    def chunk_timeout(self) -> float:
        return self._chunk_timeout

    @property
    def embeddings(self) -> OpenAIEmbeddings:
        """The same server, asked for embeddings."""
        return OpenAIEmbeddings(self._endpoint)

    @property
    def only_embeddings(self) -> OpenAIEmbeddings:
        """The same server, which is there for nothing else."""
        return OpenAIEmbeddings(self._endpoint, whatever_its_name=True)

    def render(self, request: ModelRequest) -> bytes:
        return render(request, self._form)

    async def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        reply = OpenAIReply()
        try:
            async with aclosing(
                self._endpoint.post("/chat/completions", body, purpose=purpose, call_id=call_id)
            ) as received:
                async for chunk in read_stream(received, reply):
                    yield chunk
        except ModelFailure as failure:
            failure.tool_calls_came = bool(reply.calls)
            self._endpoint.hide_secrets(failure)
            self._learn(body, failure)
            raise

    async def models(self) -> tuple[str, ...]:
        answer = await self._endpoint.fetch("/models", within=ANSWER_SECONDS)
        return tuple(model.id for model in read(answer, _Models).data)

    async def supports_thinking(self, model: str) -> bool:
        return False  # the protocol has no switch that all servers understand: none is sent

    async def capacity(self, model: str) -> Capacity:
        return await self._capacities.of(model)

    async def readiness(self) -> ServerState:
        return await self._endpoint.state("/models")

    def _learn(self, body: bytes, failure: ModelFailure) -> None:
        """Take from a failure what the next request is to know."""
        if failure.kind == "connection" or failure.loading:
            self._capacities.forget()
        if failure.kind == "overflow" and failure.window:
            self._capacities.refused(msgspec.json.decode(body, type=_Sent).model, failure.window)
        if failure.kind != "http":
            return
        if "image" in failure.error.casefold() and b'"image_url":' in body:
            self._capacities.refused_picture(msgspec.json.decode(body, type=_Sent).model)
            failure.mended = True
        if failure.status not in (400, 422):
            return
        if "stream_options" in failure.error and b'"stream_options":' in body:
            self._form = replace(self._form, asks_usage=False)
            failure.mended = True
        elif "max_completion_tokens" in failure.error and b'"max_tokens":' in body:
            self._form = replace(self._form, bound="max_completion_tokens")
            failure.mended = True

    async def _ask_capacity(self, model: str) -> Capacity | None:
        answer = await self._endpoint.told("/models")
        if answer is None:
            return None
        entry = listed(answer, model)
        window, slots, sees = window_listed(entry), None, sees_listed(entry)
        if window is None or is_llama_cpp(entry):
            props = of_props(await self._endpoint.told("/props", beside_v1=True) or b"")
            window = window or props.context_window
            slots = props.slots or (1 if is_llama_cpp(entry) else None)
            sees = props.sees if is_llama_cpp(entry) else sees
        if window is None:
            answer = await self._endpoint.told("/api/v0/models", beside_v1=True)
            told = listed(answer or b"", model)
            window, sees = of_lm_studio(told), sees_listed(told) if sees is None else sees
        return Capacity(context_window=window, slots=slots, sees=sees)

    async def aclose(self) -> None:
        """Close what is still open."""
        await self._endpoint.aclose()


class _Sent(Struct):
    model: str


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]
