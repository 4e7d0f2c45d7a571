"""What a scripted model server sends, part by part, in the wire format of Ollama or OpenAI."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from msgspec import Struct

FRAGMENT = 8  # characters of arguments a piece, as OpenAI streams them


class Think(Struct, frozen=True):
    """A piece of thinking."""

    text: str


class Say(Struct, frozen=True):
    """A piece of text."""

    text: str


class Calls(Struct, frozen=True):
    """Tool calls, ``(name, arguments)`` each, all in one line where the protocol does so."""

    calls: tuple[tuple[str, Any], ...]


class Done(Struct, frozen=True, kw_only=True):
    """The end mark, with the numbers of tokens; ``calls`` come in the last line itself (Ollama).

    ``cached`` of the prompt's tokens are said where the protocol has a word for them (OpenAI).
    """

    reason: str = "stop"
    prompt: int | None = 12
    completion: int | None = 5
    cached: int | None = None
    calls: tuple[tuple[str, Any], ...] = ()


class ErrorLine(Struct, frozen=True):
    """An error in the middle of an answer whose status was 200."""

    text: str


class Raw(Struct, frozen=True):
    """Bytes as they stand: a malformed line, half a line, an endless one."""

    data: bytes


class Stall(Struct, frozen=True):
    """Silence until the event is set; as the first part: before the headers, as during prefill."""

    until: asyncio.Event


class Sleep(Struct, frozen=True):
    """Silence for some seconds."""

    seconds: float


class Cut(Struct, frozen=True):
    """The connection ends here, without the end of the HTTP answer; ``reset`` for an RST."""

    reset: bool = False


Part = Think | Say | Calls | Done | ErrorLine | Raw | Stall | Sleep | Cut
Written = Think | Say | Calls | Done | ErrorLine | Raw


def calls(*wanted: tuple[str, Any]) -> Calls:
    """Tool calls: ``calls(("read_file", {"path": "a"}), ...)``."""
    return Calls(wanted)


class OllamaWire:
    """NDJSON as ``/api/chat`` writes it."""

    content_type = "application/x-ndjson"

    def begin(self) -> bytes:
        return b""

    def write(self, part: Written) -> bytes:
        match part:
            case Think(text=text):
                return _line({"message": {"role": "assistant", "content": "", "thinking": text}})
            case Say(text=text):
                return _line({"message": {"role": "assistant", "content": text}})
            case Calls(calls=wanted):
                return _line({"message": _calling(wanted)})
            case Done(reason=reason, prompt=prompt, completion=completion, calls=wanted):
                counted = {"prompt_eval_count": prompt, "eval_count": completion}
                return _line(
                    {
                        "message": _calling(wanted) if wanted else {"role": "assistant"},
                        "done": True,
                        "done_reason": reason,
                        "total_duration": 10_000_000,
                        **{key: value for key, value in counted.items() if value is not None},
                    }
                )
            case ErrorLine(text=text):
                return json.dumps({"error": text}).encode() + b"\n"
            case Raw(data=data):
                return data
            case _:
                assert_never(part)


class OpenAIWire:
    """Server-sent events as ``/v1/chat/completions`` writes them."""

    content_type = "text/event-stream"

    def __init__(self) -> None:
        self._calls = 0

    def begin(self) -> bytes:
        return _event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})

    def write(self, part: Written) -> bytes:
        match part:
            case Think(text=text):
                return _delta({"reasoning_content": text})
            case Say(text=text):
                return _delta({"content": text})
            case Calls(calls=wanted):
                return b"".join(self._call(*call) for call in wanted)
            case Done(reason=reason, prompt=prompt, completion=completion, calls=wanted):
                return b"".join(
                    [
                        *(self._call(*call) for call in wanted),
                        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
                        _usage(prompt, completion, part.cached),
                        b"data: [DONE]\n\n",
                    ]
                )
            case ErrorLine(text=text):
                return _event({"error": {"message": text, "type": "server_error"}})
            case Raw(data=data):
                return data
            case _:
                assert_never(part)

    def _call(self, name: str, arguments: Any) -> bytes:
        index = self._calls
        self._calls += 1
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        begun = {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        pieces: Iterator[dict[str, Any]] = (
            {"index": index, "function": {"arguments": text[start : start + FRAGMENT]}}
            for start in range(0, len(text), FRAGMENT)
        )
        return b"".join(_delta({"tool_calls": [piece]}) for piece in (begun, *pieces))


Wire = OllamaWire | OpenAIWire


def _line(content: dict[str, Any]) -> bytes:
    line = {"model": "scripted", "created_at": "2026-01-01T00:00:00Z", "done": False, **content}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _calling(wanted: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    # Index 0 for each of them is what several builds of Ollama send.
    functions = [{"index": 0, "name": name, "arguments": arguments} for name, arguments in wanted]
    entries = [{"id": f"call_{number}", "function": f} for number, f in enumerate(functions)]
    return {"role": "assistant", "content": "", "tool_calls": entries}


def _event(content: dict[str, Any]) -> bytes:
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted", **content}
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def _delta(delta: dict[str, Any]) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _usage(prompt: int | None, completion: int | None, cached: int | None) -> bytes:
    if prompt is None:
        return b""
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return _event({"choices": [], "usage": usage})
