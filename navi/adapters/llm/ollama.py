"""Ollama's ``/api/chat``: one JSON object a line, calls as objects, silence while it writes them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.adapters.llm.capacity import (
    KeptCapacity,
    of_ollama_ps,
    of_ollama_show,
    sees_in_ollama,
)
from navi.adapters.llm.embeddings import OllamaEmbeddings
from navi.adapters.llm.endpoint import Endpoint
from navi.adapters.llm.lines import LineSplitter
from navi.adapters.llm.ollama_models import OllamaShown, OllamaTags
from navi.adapters.llm.ollama_schema import flatten
from navi.adapters.llm.refusals import decoded, refusal
from navi.adapters.llm.wire_json import (
    ReplyLimit,
    count_of,
    excerpt,
    read,
    reason_of,
    requested_call,
)
from navi.domain.context.prompt import (
    ModelRequest,
    PromptMessage,
    ToolSchema,
    conversation_of,
    files_attached,
)
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import Json, JsonObject, Purpose, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import (
    Capacity,
    FinalChunk,
    ModelChunk,
    RequestedCall,
    ServerState,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)

RENDERER = "ollama/2"
RENDERER_WITHOUT_BOUND = "ollama/1"
DEFAULT_PORT = 11434

# Ollama sends nothing while the model writes a tool call (ollama#13581): 4,000 tokens of file
# content at 25 a second are 160 s of silence.
DEFAULT_CHUNK_TIMEOUT = 600.0  # seconds
KEPT_TOOLS = 100  # sets of tools, a profile's each
ANSWER_SECONDS = 10.0  # for lists and capabilities, which need no model


class Ollama:
    """One Ollama server."""

    def __init__(
        self, field: str, url: str, *, headers: Mapping[str, str], chunk_timeout: float
    ) -> None:
        """A server that is asked for nothing yet.

        Args:
            field: the setting that the address is from.
            chunk_timeout: seconds of silence between two chunks; ``DEFAULT_CHUNK_TIMEOUT`` unless
                the user wants another.

        Raises:
            BadInput: the address or a header is not usable.
        """
        self._endpoint = Endpoint(field, ollama_url(url), headers)
        self._chunk_timeout = chunk_timeout
        self._thinks: dict[str, bool] = {}
        self._capacities = KeptCapacity(self._ask_capacity)
        self._served: set[str] = set()  # models that have answered here

    @property
    def backend(self) -> str:
        return f"ollama@{self._endpoint.address}"

    @property
    def renderer(self) -> str:
        return RENDERER

    @property
    def chunk_timeout(self) -> float:
        return self._chunk_timeout

    @property
    def embeddings(self) -> OllamaEmbeddings:
        """The same server, asked for embeddings."""
        return OllamaEmbeddings(self._endpoint)

    def render(self, request: ModelRequest) -> bytes:
        return render(request, bounds=True)

    async def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        reply = OllamaReply()
        try:
            async with aclosing(
                self._endpoint.post("/api/chat", body, purpose=purpose, call_id=call_id)
            ) as received:
                async for chunk in read_stream(received, reply):
                    if isinstance(chunk, FinalChunk):
                        self._has_served(msgspec.json.decode(body, type=_Sent).model)
                    yield chunk
        except ModelFailure as failure:
            failure.tool_calls_came = bool(reply.calls)
            self._endpoint.hide_secrets(failure)
            if failure.kind == "connection" or failure.loading:
                self._capacities.forget()
            if failure.status == 400 and "does not support thinking" in failure.error:
                self._thinks[msgspec.json.decode(body, type=_Sent).model] = False
                failure.mended = True
            raise

    async def models(self) -> tuple[str, ...]:
        listed = read(
            await self._endpoint.fetch("/api/tags", within=ANSWER_SECONDS), OllamaTags
        ).models
        chatting = [
            model
            for model in listed
            if not model.capabilities or "completion" in model.capabilities
        ]
        # The first one may be taken without being asked for by name: that must not be a model
        # that sends the conversation to somebody else's machine.
        chatting.sort(key=lambda model: bool(model.remote_host))
        return tuple(model.name for model in chatting)

    async def supports_thinking(self, model: str) -> bool:
        if model not in self._thinks:
            body = msgspec.json.encode({"model": model})
            try:
                answer = await self._endpoint.fetch("/api/show", body, within=ANSWER_SECONDS)
                self._thinks[model] = "thinking" in (read(answer, OllamaShown).capabilities or ())
            except ModelFailure:
                return False
        return self._thinks[model]

    async def capacity(self, model: str) -> Capacity:
        return await self._capacities.of(model)

    async def readiness(self) -> ServerState:
        return await self._endpoint.state("/api/version")

    async def answers(self, *, within: float) -> bool:
        """Whether an Ollama answers at the address, within some seconds."""
        try:
            read(await self._endpoint.fetch("/api/tags", within=within), OllamaTags)
        except ModelFailure:
            return False
        return True

    def _has_served(self, model: str) -> None:
        if model not in self._served:
            self._served.add(model)
            self._capacities.forget(model)

    async def _ask_capacity(self, model: str) -> Capacity | None:
        body = msgspec.json.encode({"model": model})
        trained, loaded = await asyncio.gather(
            self._endpoint.told("/api/show", body), self._endpoint.told("/api/ps")
        )
        if trained is None and loaded is None:
            return None
        limit = None if trained is None else of_ollama_show(trained)
        window = None if loaded is None else of_ollama_ps(loaded, model)
        sees = None if trained is None else sees_in_ollama(trained)
        # Somebody else may have loaded it with another window: that one ends with the first call.
        if window is not None and (limit is None or model in self._served):
            return Capacity(context_window=window, sees=sees)
        return Capacity(context_window=limit, sees=sees)

    async def aclose(self) -> None:
        """Close what is still open."""
        await self._endpoint.aclose()


def ollama_url(text: str) -> str:
    """The address of a server, as ``OLLAMA_HOST`` may have it: ``host``, ``host:port`` or a URL."""
    text = text.strip()
    if "://" not in text:
        text = f"http://{text}"
        if not re.search(r":\d+/?$", text):
            text = f"{text.rstrip('/')}:{DEFAULT_PORT}"
    # The address that a server listens on is not one that can be connected to everywhere.
    return re.sub(r"//(0\.0\.0\.0|\[::\])(?=[:/]|$)", "//127.0.0.1", text)


def render(request: ModelRequest, *, bounds: bool) -> bytes:
    """The body of ``/api/chat``.

    ``truncate`` and ``shift`` are off: navi decides what the model forgets. Ollama loads a model
    anew when ``shift`` or ``num_ctx`` change, so each call has the same ``shift``, and callers give
    each call of a model the same ``num_ctx``. The protocol has no ``tool_choice``: what is called
    although nobody asked is passed over.

    Args:
        bounds: whether the answer's bound is sent, and the conversation as templates take it; before
            there was one each message was sent as it stands in the context, and told of its files in
            other words.
    """
    messages = conversation_of(request.messages) if bounds else files_attached(request.messages)
    body: JsonObject = {
        "model": request.model,
        "messages": [_message(message) for message in messages],
    }
    if request.tools:
        body["tools"] = msgspec.Raw(_tools(msgspec.json.encode(request.tools)))
    body |= {"stream": True, "truncate": False, "shift": False}
    if request.options.think is not None:
        body["think"] = request.options.think
    options: JsonObject = {}
    if request.options.num_ctx is not None:
        options["num_ctx"] = request.options.num_ctx
    if request.options.temperature is not None:
        options["temperature"] = request.options.temperature
    if bounds and request.options.max_tokens is not UNSET:
        options["num_predict"] = request.options.max_tokens
    body["options"] = options
    return msgspec.json.encode(body)


def _message(message: PromptMessage) -> JsonObject:
    sent: JsonObject = {"role": message.role, "content": message.content}
    if message.pictures:
        sent["images"] = [picture.base64 for picture in message.pictures]
    if message.thinking:
        sent["thinking"] = message.thinking
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "function": {"index": index, "name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    if message.role == "tool":
        sent["tool_name"] = message.name
        sent["tool_call_id"] = message.call_id
    return sent


@lru_cache(maxsize=KEPT_TOOLS)
def _tools(schemas: bytes) -> bytes:
    """Tools as Ollama takes them: flattened once, since each call of a session offers the same."""
    tools = msgspec.json.decode(schemas, type=tuple[ToolSchema, ...])
    return msgspec.json.encode([_tool(tool) for tool in tools])


def _tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": flatten(tool.parameters),
        },
    }


class _Function(Struct):
    name: Json = ""
    arguments: Json = None


class _Call(Struct):
    function: _Function


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(Struct):
    message: _Message | UnsetType | None = UNSET
    done: bool | UnsetType = UNSET
    done_reason: str | None = None
    error: Json = None
    prompt_eval_count: Json = None
    eval_count: Json = None


class _Sent(Struct):
    model: str


class OllamaReply:
    """What came of a reply so far."""

    def __init__(self) -> None:
        self.limit = ReplyLimit()
        self.calls: list[RequestedCall] = []


async def read_stream(
    received: AsyncGenerator[bytes, None], reply: OllamaReply
) -> AsyncGenerator[ModelChunk, None]:
    """The chunks in the bytes of an answer; ``reply`` is brought up to date before each one.

    Raises:
        ModelFailure: the server reports an error, or the answer is malformed or has no end mark.
    """
    splitter = LineSplitter()
    async for data in received:
        for line in splitter.feed(data):
            for chunk in _read_line(line, reply):
                yield chunk
                if isinstance(chunk, FinalChunk):
                    return
    for line in splitter.end():
        for chunk in _read_line(line, reply):
            yield chunk
            if isinstance(chunk, FinalChunk):
                return
    raise ModelFailure("protocol", "the stream ended without its end mark (done)")


def _read_line(data: bytes, reply: OllamaReply) -> list[ModelChunk]:
    if not data.strip():
        return []
    line = read(data, _Line)
    # Some builds put the message under another key (ollama#11781).
    if line.error is not None or (line.message is UNSET and line.done is UNSET):
        reason = line.error if isinstance(line.error, str) else data
        raise refusal(
            decoded(reason) if isinstance(reason, bytes) else reason,
            f"the server reports: {excerpt(reason, 500)}",
            status=200,
        )
    chunks: list[ModelChunk] = []
    message = line.message or _Message()
    if message.thinking:
        chunks.append(ThinkingChunk(reply.limit.text(message.thinking)))
    if message.content:
        chunks.append(TextChunk(reply.limit.text(message.content)))
    for call in message.tool_calls or ():
        # One by one, in order: the index is 0 for all of them in some builds (ollama#15457).
        wanted = requested_call(call.function.name, call.function.arguments)
        reply.limit.spend(len(wanted.raw_arguments) + len(wanted.name))
        reply.calls.append(wanted)
        chunks.append(ToolCallChunk())
    if line.done is True:
        chunks.append(
            FinalChunk(
                finish_reason=reason_of(line.done_reason) or "stop",
                usage=Usage(
                    prompt_tokens=count_of(line.prompt_eval_count),
                    completion_tokens=count_of(line.eval_count),
                ),
                tool_calls=tuple(reply.calls),
            )
        )
    return chunks
