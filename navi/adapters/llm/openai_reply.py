"""Replies of ``/chat/completions``: server-sent events, as OpenAI and many others send them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from navi.adapters.llm.lines import EventSplitter
from navi.adapters.llm.openai_calls import CallAssembler, CallPiece
from navi.adapters.llm.refusals import refusal
from navi.adapters.llm.wire_json import ReplyLimit, count_of, excerpt, read, reason_of
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import Json, JsonObject, Usage
from navi.ports.language_model import (
    FinalChunk,
    ModelChunk,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)

# After the finish_reason only the usage and [DONE] follow, at once. Some servers send neither and
# keep the connection open.
TAIL_SECONDS = 3.0


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


class OpenAIReply:
    """What came of a reply so far."""

    def __init__(self) -> None:
        self.limit = ReplyLimit()
        self.calls = CallAssembler(self.limit)
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
        chunks.append(ThinkingChunk(reply.limit.text(thinking)))
    text = _text(delta.content)
    if text:
        chunks.append(TextChunk(reply.limit.text(text)))
    for piece in delta.tool_calls or ():
        reply.calls.take(piece)
        chunks.append(ToolCallChunk())
    reply.finish_reason = reason_of(choice.finish_reason) or reply.finish_reason
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
