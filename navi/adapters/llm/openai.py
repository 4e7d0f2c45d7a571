"""``/chat/completions`` as OpenAI defined it and many servers speak it: server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Struct
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
from navi.adapters.llm.lines import EventSplitter
from navi.adapters.llm.openai_calls import CallAssembler, CallPiece
from navi.adapters.llm.refusals import refusal
from navi.adapters.llm.wire_json import Budget, count_of, excerpt, read
from navi.domain.context.prompt import (
    ModelRequest,
    PromptMessage,
    PromptPicture,
    ToolSchema,
    conversation_of,
    files_attached,
)
from navi.domain.vocabulary.errors import BadInput, ModelFailure
from navi.domain.vocabulary.events import Json, JsonObject, Purpose, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import (
    Capacity,
    FinalChunk,
    ModelChunk,
    ServerState,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)

DEFAULT_CHUNK_TIMEOUT = 60.0  # seconds; arguments of tool calls are streamed here
ANSWER_SECONDS = 10.0

# After the finish_reason only the usage and [DONE] follow, at once. Some servers send neither and
# keep the connection open.
TAIL_SECONDS = 3.0


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


class Form(Struct, frozen=True, kw_only=True):
    """What servers differ in.

    Attributes:
        asks_usage: by ``stream_options``, which some refuse.
        bound: the key of ``max_tokens``; OpenAI's newer models refuse the old one, most other servers
            know only that. None: the bound is not sent, and each message as it stands in the context
            and with its files in other words, as before there was one.
    """

    asks_usage: bool = True
    bound: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"


def renderer_of(form: Form) -> str:
    """The name of a form in the log."""
    version = "openai/1" if form.bound is None else "openai/2"
    usage = "" if form.asks_usage else "-without-usage"
    bound = "-max-completion-tokens" if form.bound == "max_completion_tokens" else ""
    return version + usage + bound


FORMS = {
    renderer_of(form): form
    for form in (
        Form(asks_usage=asks_usage, bound=bound)
        for bound in (None, "max_tokens", "max_completion_tokens")
        for asks_usage in (True, False)
    )
}


def render(request: ModelRequest, form: Form) -> bytes:
    """The body of ``/chat/completions``.

    ``num_ctx`` and ``think`` have no place in this protocol. Thinking is not sent back: servers do
    not agree on its name, and some refuse it.
    """
    messages = (
        files_attached(request.messages)
        if form.bound is None
        else conversation_of(request.messages)
    )
    body: JsonObject = {
        "model": request.model,
        "messages": [_message(message) for message in messages],
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        # llama.cpp and vLLM leave the tools in the prompt, which is what they were sent for: without
        # them it would be another one from the system text on.
        if form.bound is not None and request.options.tool_choice is not UNSET:
            body["tool_choice"] = request.options.tool_choice
    body["stream"] = True
    if form.asks_usage:
        body["stream_options"] = {"include_usage": True}
    if request.options.temperature is not None:
        body["temperature"] = request.options.temperature
    if form.bound is not None and request.options.max_tokens is not UNSET:
        body[form.bound] = request.options.max_tokens
    return msgspec.json.encode(body)


def _message(message: PromptMessage) -> JsonObject:
    sent: JsonObject = {"role": message.role, "content": message.content}
    if message.pictures:
        text = {"type": "text", "text": message.content}
        sent["content"] = [text, *(_picture(picture) for picture in message.pictures)]
    if message.tool_calls:
        # Strict servers want null where there is no text beside the calls.
        sent["content"] = message.content or None
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        sent["tool_call_id"] = message.call_id
    return sent


def _picture(picture: PromptPicture) -> JsonObject:
    url = f"data:{picture.media_type};base64,{picture.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


class _Delta(Struct):
    content: Json = None
    reasoning: Json = None
    reasoning_content: Json = None
    tool_calls: list[CallPiece] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None  # from servers that do not stream, whatever they were asked
    finish_reason: str | None = None


class _Event(Struct):
    choices: list[_Choice] | None = None
    usage: JsonObject | None = None
    timings: Json = None  # llama.cpp's own
    error: Json = None


class _Sent(Struct):
    model: str


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


class OpenAIReply:
    """What came of a reply so far."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.calls = CallAssembler(self.budget)
        self.finish_reason: str | None = None
        self.done = False  # [DONE] came
        self.usage = Usage()

    def end(self) -> FinalChunk:
        """The last chunk.

        Raises:
            ModelFailure: ``protocol``, the stream broke off.
        """
        if self.finish_reason is None and not self.done:
            raise ModelFailure(
                "protocol", "the stream ended without its end mark (finish_reason or [DONE])"
            )
        return FinalChunk(
            finish_reason=self.finish_reason or ("tool_calls" if self.calls else "stop"),
            usage=self.usage,
            tool_calls=self.calls.requested(),
        )


async def read_stream(
    received: AsyncGenerator[bytes, None], reply: OpenAIReply
) -> AsyncGenerator[ModelChunk, None]:
    """The chunks in the bytes of an answer; ``reply`` is brought up to date before each one.

    Raises:
        ModelFailure: the server reports an error, or the answer is malformed or has no end mark.
    """
    splitter = EventSplitter()
    deadline: float | None = None
    while not reply.done:
        if deadline is None and reply.finish_reason is not None:
            deadline = asyncio.get_running_loop().time() + TAIL_SECONDS
        data = await _next(received, deadline)
        for event in splitter.feed(data) if data is not None else splitter.end():
            for chunk in _read_event(event, reply):
                yield chunk
            if reply.done:
                break
        if data is None:
            break
    yield reply.end()


async def _next(received: AsyncGenerator[bytes, None], deadline: float | None) -> bytes | None:
    """The next bytes; None at the end, which is also a failure or silence after the deadline is set.

    Args:
        deadline: on the loop's clock; None while the reply itself is still coming.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(received, None)
    except (TimeoutError, ModelFailure):
        if deadline is None:
            raise
        return None


def _read_event(data: bytes, reply: OpenAIReply) -> list[ModelChunk]:
    if data.strip() == b"[DONE]":
        reply.done = True
        return []
    event = read(data, _Event)
    if event.error is not None:
        shown_error = f"the server reports: {_error_text(event.error)}"
        raise refusal(event.error, shown_error, status=200)
    if event.usage is not None or event.timings is not None:
        reply.usage = usage_of(event.usage or {}, event.timings)
    if not event.choices:
        return []  # the usage at the end comes without a choice
    choice = event.choices[0]
    delta = choice.delta or choice.message or _Delta()
    chunks: list[ModelChunk] = []
    thinking = _text(delta.reasoning_content) or _text(delta.reasoning)
    if thinking:
        chunks.append(ThinkingChunk(reply.budget.text(thinking)))
    text = _text(delta.content)
    if text:
        chunks.append(TextChunk(reply.budget.text(text)))
    for piece in delta.tool_calls or ():
        reply.calls.take(piece)
        chunks.append(ToolCallChunk())
    reply.finish_reason = choice.finish_reason or reply.finish_reason
    return chunks


def usage_of(usage: JsonObject, timings: Json) -> Usage:
    """The counts of a reply; llama.cpp tells them in its timings too, where nobody asked for usage."""
    times = cast(JsonObject, timings) if isinstance(timings, dict) else {}
    cached, read_anew = count_of(times.get("cache_n")), count_of(times.get("prompt_n"))
    prompt = count_of(usage.get("prompt_tokens"))
    if prompt is None and read_anew is not None:
        prompt = (cached or 0) + read_anew
    completion = count_of(usage.get("completion_tokens"))
    match usage:
        case {"prompt_tokens_details": {"cached_tokens": told}} | {"prompt_cache_hit_tokens": told}:
            cached = count_of(told) if count_of(told) is not None else cached
        case _:
            pass
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=count_of(times.get("predicted_n")) if completion is None else completion,
        cached_tokens=UNSET if cached is None else cached,
    )


def _text(content: Json) -> str:
    """Text as a string, or as the list of parts that some servers send."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        cast(JsonObject, part).get("text")
        for part in cast(list[Any], content)
        if isinstance(part, dict)
    ]
    return "".join(part for part in parts if isinstance(part, str))


def _error_text(error: Json) -> str:
    match error:
        case {"message": str(message)} | str(message):
            return excerpt(message, 500)
        case _:
            return excerpt(msgspec.json.encode(error), 500)
