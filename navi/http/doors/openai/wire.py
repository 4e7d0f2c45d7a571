"""Chat completions on the wire: what is read of a request, and what is answered.

What navi has no use for is passed over: how a model samples is its profile's affair.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.events import Usage

FinishReason = Literal["stop", "length"]


class ImageUrl(Struct, frozen=True, kw_only=True):
    """Where a picture is, or the picture itself as a ``data:`` URI."""

    url: str


class ContentPart(Struct, frozen=True, kw_only=True):
    """A part of a message: ``text``, a picture, or what only its type is looked at of."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None


class ChatMessage(Struct, frozen=True, kw_only=True):
    """A message of the conversation as the program has kept it."""

    role: str
    content: str | tuple[ContentPart, ...] | None = None


class StreamOptions(Struct, frozen=True, kw_only=True):
    """``include_usage``: a last piece of the stream says what the answer took."""

    include_usage: bool | None = None


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """In which form the answer is wanted; navi gives text."""

    type: str = "text"


class ChatRequest(Struct, frozen=True, kw_only=True):
    """Body of ``POST /v1/chat/completions``."""

    model: str
    messages: tuple[ChatMessage, ...]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: tuple[Any, ...] | None = None
    functions: tuple[Any, ...] | None = None
    response_format: ResponseFormat | None = None


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """A profile, as the model that a client may choose."""

    id: str
    created: int = 0
    object: Literal["model"] = "model"
    owned_by: Literal["navi"] = "navi"


class ModelList(Struct, frozen=True, kw_only=True):
    """All profiles that answer."""

    data: tuple[ModelAnswer, ...]
    object: Literal["list"] = "list"


class CachedTokens(Struct, frozen=True, kw_only=True):
    """Tokens of the prompts that the model server had not to read anew."""

    cached_tokens: int


class CompletionUsage(Struct, frozen=True, kw_only=True):
    """What all model calls of the turn took, as the servers counted it."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens | UnsetType = UNSET


class AnswerMessage(Struct, frozen=True, kw_only=True):
    """The answer; its thinking under both names that clients look for."""

    content: str
    role: Literal["assistant"] = "assistant"
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    refusal: None = None


class Choice(Struct, frozen=True, kw_only=True):
    """The one answer."""

    message: AnswerMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: None = None


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """An answer as a whole; ``created`` in seconds since 1970."""

    id: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: CompletionUsage
    object: Literal["chat.completion"] = "chat.completion"


class Delta(Struct, frozen=True, kw_only=True):
    """What a piece of a stream adds."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """The one answer, in a piece of a stream."""

    delta: Delta
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: None = None


class ChatChunk(Struct, frozen=True, kw_only=True):
    """A piece of a stream; ``usage`` only where it was asked for: in the last one, else null."""

    id: str
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | UnsetType | None = UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


def completion_usage(usage: Usage) -> CompletionUsage:
    """Tokens in OpenAI's form."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = usage.cached_tokens
    return CompletionUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=UNSET if cached is UNSET else CachedTokens(cached_tokens=cached),
    )


def thinking_delta(text: str) -> Delta:
    """A piece of thinking."""
    return Delta(reasoning_content=text, reasoning=text)
