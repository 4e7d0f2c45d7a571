"""What model servers say when they refuse a call, read as what went wrong.

The wordings are of llama.cpp, Ollama, vLLM, SGLang, TGI, LM Studio, TabbyAPI, llama-cpp-python, OpenAI
and proxies before them. None of them is promised by anybody, so text is looked for and not compared.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from navi.adapters.llm.wire_json import count_of
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import Json, JsonObject

# A request that is too long is refused with 400, by proxies with 413, by TGI with 422, by Ollama's
# runner with 500, and by an error line in a stream whose status was 200.
LENGTH_STATUSES = frozenset({200, 400, 413, 422, 500})
TOO_LARGE = 413  # of whatever wording: a shorter request is the only thing that can help
LOADING_STATUSES = frozenset({500, 503})

_LENGTH_CODES = frozenset({"exceed_context_size_error", "context_length_exceeded"})
_TOO_LONG = re.compile(
    r"""
      exceed_context_size_error | context_length_exceeded
    | exceed(s|ed|ing)?\ (the\ )?((available|maximum|max|model's|allowed|permitted|configured)\ )*
        (context|sequence|model)[ _](size|length|window|limit|len)
    | context\ (size|length|window|limit)\ (has\ been\ |was\ |is\ )?exceeded
    | longer\ than\ the\ (model's\ )?(maximum\ )?(context|model|sequence)(\ (length|size|window))?
    | (greater|larger|more)\ than\ (the\ )?(model's\ )?(max_seq_len|(maximum\ )?context\ (length|size|window))
    | (maximum|max)\ (model\ )?(context|sequence)\ length\ (is|of)
    | context\ length\ (is|of)\ only
    | when\ (the\ )?context\ (the\ )?overflows | context\ overflow
    | reached\ context\ length
    | (prompt|input|request)\ (is\ )?too\ (long|large)
    | too\ large\ for\ model\ with
    | input\ length\ (and\ \S+\ )?exceeds?
    | input\ token\ count\b.{0,40}\ exceeds
    | `inputs`\ (must\ have\ less\ than|tokens\ \+)
    | reduce\ the\ length\ of\ (the|your)\ (messages|prompt|input)
    """,
    re.IGNORECASE | re.VERBOSE,
)

# In order: a number that is of the prompt alone comes before one of prompt and answer. A number is read
# from its first digit, once: one of many digits takes the square of its length else.
_PROMPT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"request \((\d+) tokens\)",
        r"(?<!\d)(\d++) in (?:the messages|your prompt|the prompt)",
        r"(?<!\d)(\d++) of text input",
        r"(?<!\d)(\d++) tokens from the input",
        r"(?<!\d)(\d++) (?:input|prompt) tokens",
        r"resulted in (\d+) tokens",
        r"input \((\d+) tokens\)",
        r"keep the first (\d+) tokens",
        r"prompt \(length (\d+)\)",
        r"prompt length (\d+)",
        r"prompt contains (\d+) tokens",
        r"given: (\d+)",
        r"too long: (\d+) tokens",
        r"token count \((\d+)\)",
        r"requested tokens \((\d+)\)",
        r"requested (?:about |a total of )?(\d+) tokens",
    )
)
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context (?:size|length|window) \((\d+)",
        r"(?:maximum|max) (?:model )?(?:context|sequence) length (?:is|of) (\d+)",
        r"context length (?:is|of) (?:only )?(\d+)",
        r"(?:model|context) length of (?:only )?(\d+)",
        r"max_seq_len (?:of )?(\d+)",
        r"context window (?:of|is) (\d+)",
        r"tokens > (\d+) maximum",
        r"with (\d+) maximum context length",
        r"must have less than (\d+)",
        r"must be <= (\d+)",
        r"allowed \((\d+)\)",
    )
)

# llama.cpp: "Loading model"; Ollama passes on "llm server loading model" of its runner; Hugging Face
# and LM Studio: "Model x is (currently) loading". One that failed to load is not loading.
_LOADING = re.compile(
    r"^\W*loading model|server loading model|\bmodel\b.{0,120}\bloading\b", re.IGNORECASE
)
_FAILED = re.compile(r"\b(error|fail\w*|unable|cannot|can't|could not|not found)\b", re.IGNORECASE)


class _TooLong(Struct, frozen=True):
    prompt_tokens: int | None
    window: int | None


def refusal(
    error: Json, shown: str, *, status: int, retry_after: float | None = None
) -> ModelFailure:
    """What a server's error says, as a failure.

    Args:
        error: what the server sent: the body, or the ``error`` in it, decoded; text where it is none.
        shown: the same for people, without secrets.
        status: of the answer; 200 for an error in the middle of a stream.
    """
    too_long = _too_long(error, status)
    if too_long is not None:
        return ModelFailure(
            "overflow",
            shown,
            status=status,
            prompt_tokens=too_long.prompt_tokens,
            window=too_long.window,
        )
    loading = status in LOADING_STATUSES and _says_loading(message_of(error))
    return ModelFailure("http", shown, status=status, retry_after=retry_after, loading=loading)


def decoded(body: bytes) -> Json:
    """An error body as JSON; as text where it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")


def message_of(error: Json) -> str:
    """What a server says in an error: the text of its ``error`` or ``message``, else all of it."""
    match error:
        case str(message):
            return message
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case {"message": str(message)} | {"detail": str(message)}:
            return message
        case _:
            return msgspec.json.encode(error).decode()


def _says_loading(message: str) -> bool:
    return _LOADING.search(message) is not None and _FAILED.search(message) is None


def _too_long(error: Json, status: int) -> _TooLong | None:
    if status not in LENGTH_STATUSES:
        return None
    fields, text = _fields(error), message_of(error)
    codes = {fields.get("type"), fields.get("code")} - {None}
    if not (
        status == TOO_LARGE
        or any(code in _LENGTH_CODES for code in codes if isinstance(code, str))
        or _TOO_LONG.search(text)
    ):
        return None
    return _TooLong(
        prompt_tokens=count_of(fields.get("n_prompt_tokens")) or _first(_PROMPT, text),
        window=count_of(fields.get("n_ctx")) or _first(_WINDOW, text),
    )


def _fields(error: Json) -> JsonObject:
    """The error as an object; Ollama quotes the one of its runner as text."""
    if isinstance(error, dict):
        inner = cast(dict[str, Any], error).get("error")
        return cast(JsonObject, inner if isinstance(inner, dict) else error)
    return {}


def _first(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return int(found[1][:15])
    return None
