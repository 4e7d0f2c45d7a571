"""The window of a call: how much a request takes of it, and what is left out where it does not fit.

Nobody but the model server can count tokens, and it does so when it is too late. What it counted says how
many characters of a request make a token; by that the next request is estimated.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from navi.domain.context.messages import Picture
from navi.domain.context.prompt import (
    ModelRequest,
    PromptMessage,
    PromptPicture,
    ToolSchema,
    with_files,
)
from navi.domain.vocabulary.events import Json, JsonObject, Shortened
from navi.domain.vocabulary.ids import CallId

CHARS_PER_TOKEN = 3.5  # of a request, where the server has not counted any yet
# A count beyond these is not of the request: some servers count only what they had to read anew.
FEWEST_CHARS, MOST_CHARS = 0.5, 6.0
COUNTED = 50  # tokens: a count of fewer says little about the next request
PIXELS_PER_TOKEN = 750  # of a picture, about what models that see make of it
MARKERS = 16  # characters that a template puts around a message

ANSWER_SHARE, MOST_RESERVED = (
    8,
    1_024,
)  # an eighth of the window is kept for the answer, so much at most
# Of the window: what is estimated to be larger is not sent at all. The server knows better than an
# estimate, and a request that it refuses costs nothing.
HOPELESS = 1.5

# A result is given to the model in a third of the window at most, and in less where that is too much.
RESULT_SHARES = (3, 6, 12, 24, 48)
RESULT_CHARS_PER_TOKEN = (
    3  # fixed: a result that is shortened has to be the same in the next request
)
SHORTEST_RESULT = 240  # characters


class Sizes(Struct, frozen=True, kw_only=True):
    """What a request is made of, in characters."""

    system: int
    tools: int
    messages: int
    longest: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.system + self.tools + self.messages


class Rate(Struct, frozen=True, kw_only=True):
    """Characters a token; ``counted`` where a server's count says so."""

    chars: float = CHARS_PER_TOKEN
    counted: bool = False

    def tokens(self, chars: int) -> int:
        """Tokens of so many characters."""
        return ceil(chars / self.chars)


class Window(Struct, frozen=True, kw_only=True):
    """The window of a model, in tokens of a prompt and its answer, and how its tokens are estimated.

    Attributes:
        sees: whether the pictures of a context are sent; else they take nothing of it.
    """

    tokens: int
    rate: Rate
    sees: bool


class Fitted(Struct, frozen=True, kw_only=True):
    """A request as it may be sent; ``tokens`` of it as estimated."""

    request: ModelRequest
    shortened: tuple[Shortened, ...]
    tokens: int


class TooLarge(Struct, frozen=True, kw_only=True):
    """A request that does not fit, whatever is left out."""

    sizes: Sizes
    tokens: int


def sizes_of(request: ModelRequest) -> Sizes:
    """What there is to read in a request."""
    of_messages = [_size(message) for message in request.messages if message.role != "system"]
    return Sizes(
        system=sum(_size(message) for message in request.messages if message.role == "system"),
        tools=sum(_size_of_tool(tool) for tool in request.tools),
        messages=sum(of_messages),
        longest=max(of_messages, default=0),
    )


def size_of_picture(picture: Picture | PromptPicture) -> int:
    """Characters that make as many tokens as a picture."""
    return ceil(picture.width * picture.height / PIXELS_PER_TOKEN * CHARS_PER_TOKEN)


def counted_rate(chars: int, tokens: int) -> Rate | None:
    """What a server's count says; None where it says nothing."""
    if tokens < COUNTED or chars <= 0:
        return None
    return Rate(chars=min(MOST_CHARS, max(FEWEST_CHARS, chars / tokens)), counted=True)


def reserved(window: int, *, wanted: int | None = None) -> int:
    """Tokens that are kept free for the answer.

    Args:
        wanted: the most that the answer may have, where that is bounded.
    """
    share = min(MOST_RESERVED, window // ANSWER_SHARE)
    return share if wanted is None else min(wanted, max(share, window // 4))


def is_full(tokens: int, *, window: int, threshold: float, answer: int) -> bool:
    """Whether a context should be compressed before the next call.

    Args:
        tokens: of the whole request.
        threshold: share of the window, 0 to 1.
        answer: tokens that are kept free.
    """
    return tokens >= window * threshold or tokens + answer > window


def fit(
    request: ModelRequest, *, results: Mapping[CallId, int], window: int, rate: Rate
) -> Fitted | TooLarge:
    """The request, with as little left out as will do: long tool results first, then what tools are for.

    Args:
        results: the keys of tool results in the context, by their calls.
    """
    answer = reserved(window) // 2
    found: list[Fitted] = []
    for shorter, shortened in _shorter(request, results, window):
        tokens = rate.tokens(sizes_of(shorter).total)
        found.append(Fitted(request=shorter, shortened=shortened, tokens=tokens))
        if tokens + answer <= window:
            break
    if found[-1].tokens <= window * HOPELESS:
        return found[-1]
    return TooLarge(sizes=sizes_of(found[-1].request), tokens=found[-1].tokens)


def why_too_large(too_large: TooLarge, *, window: int, rate: Rate, model: str) -> str:
    """What is how large, and what can be done, for people."""
    sizes = too_large.sizes
    parts = (
        f"system text {rate.tokens(sizes.system):,}",
        f"tools {rate.tokens(sizes.tools):,}",
        f"messages {rate.tokens(sizes.messages):,} (the longest {rate.tokens(sizes.longest):,})",
    )
    return (
        f"the request does not fit into the window of {model}, {window:,} tokens: {', '.join(parts)} "
        "tokens. Send less at once or attach it as a file, choose a profile with fewer tools, or give "
        "the model a larger window: num_ctx of the profile, NAVI_CONTEXT_WINDOW, or the model server's "
        "own setting"
    )


def shorten(
    messages: Sequence[PromptMessage], chars: Mapping[CallId, int]
) -> tuple[PromptMessage, ...]:
    """The messages with some tool results shortened to so many characters of their own.

    What was sent is rendered again by this very function: what it writes must not change.
    """
    return tuple(
        replace(message, content=shortened_result(message.content, chars[message.call_id]))
        if message.role == "tool" and message.call_id is not None and message.call_id in chars
        else message
        for message in messages
    )


def shortened_result(content: str, chars: int) -> str:
    """The beginning of a result, a word about the rest, and where the whole is, if it says so."""
    if len(content) <= chars:
        return content
    _, mark, where = content.rpartition("\n\n[cut: ")
    kept = f"{mark}{where}" if mark and where.endswith("]") and len(where) < SHORTEST_RESULT else ""
    return (
        f"{content[:chars]}\n\n[shortened to fit: the first {chars:,} of {len(content):,} characters; "
        f"ask for a part of it if you need more]{kept}"
    )


def _shorter(
    request: ModelRequest, results: Mapping[CallId, int], window: int
) -> Iterator[tuple[ModelRequest, tuple[Shortened, ...]]]:
    """The request with more and more left out."""
    shorter, shortened = request, tuple[Shortened, ...]()
    for share in RESULT_SHARES:
        most = max(SHORTEST_RESULT, window * RESULT_CHARS_PER_TOKEN // share)
        chars = {
            message.call_id: most
            for message in request.messages
            if message.role == "tool"
            and message.call_id is not None
            and message.call_id in results
            and len(message.content) > most
        }
        shorter = replace(request, messages=shorten(request.messages, chars))
        shortened = tuple(Shortened(seq=results[id_], chars=most) for id_ in chars)
        yield shorter, shortened
    if request.tools:
        yield replace(shorter, tools=tuple(map(_bare, request.tools))), shortened


def _bare(tool: ToolSchema) -> ToolSchema:
    """A tool by its name and the names and types of its parameters."""
    return replace(tool, description="", parameters=_without_words(tool.parameters))


def _without_words(schema: JsonObject) -> JsonObject:
    """A JSON Schema without its descriptions; a parameter of that name stays."""
    bare = {key: value for key, value in schema.items() if key != "description"}
    properties = bare.get("properties")
    if isinstance(properties, dict):
        bare["properties"] = {
            name: _bare_value(value) for name, value in cast(JsonObject, properties).items()
        }
    if "items" in bare:
        bare["items"] = _bare_value(bare["items"])
    return bare


def _bare_value(value: Json) -> Json:
    return _without_words(cast(JsonObject, value)) if isinstance(value, dict) else value


def _size(message: PromptMessage) -> int:
    calls = sum(
        len(call.name) + len(msgspec.json.encode(call.arguments)) for call in message.tool_calls
    )
    words = len(with_files(message.content, message.files)) + len(message.thinking or "")
    pictures = sum(map(size_of_picture, message.pictures or ()))
    return words + calls + pictures + MARKERS


def _size_of_tool(tool: ToolSchema) -> int:
    return len(msgspec.json.encode(tool))
