"""A model server that counts tokens as a real one does, has a window and slots, and refuses beyond.

What it says is a script (``mind``); what it counts is not: it writes the request out as a chat template
would, tokenises it, takes the slot whose cache begins most like it, and reads only the rest anew. It cuts
an answer at ``max_tokens`` (``num_predict``) and at the end of the window, with the reason ``length``.

    async with CountingServer(window=2048) as server:
        server.mind = lambda request: (Say("hello"),)
        ...
        assert server.prefilled_twice() <= 0.05
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from tests.support.model_answer import Answer
from tests.support.model_server import (
    WIRES,
    ModelServer,
    Received,
    purpose_of,
)
from tests.support.model_wire import Calls, Done, Part, Raw, Say, Sleep, Stall, Think

_TOKEN = re.compile(r"[^\W\d_]{1,6}|\d{1,3}|\s+|[\W_]")  # about 4 characters of prose a token

Mind = Callable[[Received], Iterable[Part]]


class Counted(Struct, kw_only=True):
    """What a chat request came to, in tokens.

    Attributes:
        cached: of the prompt, what stood in the slot already.
        again: of the prompt, what the server had read once before, in whatever slot, and read again.
        refused: the prompt alone does not fit into the window.
        call: the id that the client gave it.
        told: the counts were sent, with the end of the answer, to a client that was still there.
    """

    purpose: str
    prompt: int
    call: str = ""
    told: bool = False
    cached: int = 0
    again: int = 0
    completion: int = 0
    reason: str = ""
    refused: bool = False
    max_tokens: int | None = None


class CountingServer(ModelServer):
    """One model behind Ollama's and OpenAI's protocol; to be used as ``async with``.

    Args:
        window: tokens of a slot, prompt and answer.
        slots: requests that are answered side by side; more wait, without headers.
        prefill: tokens of a prompt that are read in a second; None for no time at all.
    """

    def __init__(
        self, *, window: int, slots: int = 1, prefill: float | None = None, port: int = 0
    ) -> None:
        super().__init__(port=port)
        self.window = window
        self.mind: Mind = plain_mind
        self.counted: list[Counted] = []
        self.most_at_once = 0
        self._prefill = prefill
        self._caches: list[list[str]] = [[] for _ in range(slots)]
        self._free = set(range(slots))
        self._waiting: deque[tuple[Received, asyncio.Event]] = deque()
        self._taken: dict[int, int] = {}  # slots by the identity of the request that has them
        self._read: list[list[str]] = []  # prompts that were read, to tell what is read again
        self.otherwise_at = {
            "/props": {"default_generation_settings": {"n_ctx": window}, "total_slots": slots},
            "/v1/models": {
                "data": [{"id": name, "meta": {"n_ctx": window}} for name in self.models]
            },
            "/api/ps": {"models": [{"name": self.models[0], "context_length": window}]},
        }

    @property
    def at_once(self) -> int:
        """Requests that have a slot."""
        return len(self._taken)

    def of(self, *purposes: str) -> list[Counted]:
        """What the requests of some purposes came to."""
        return [counted for counted in self.counted if counted.purpose in purposes]

    def prefilled_twice(self) -> float:
        """The share of all prompt tokens that the server had read before and had to read again."""
        total = sum(counted.prompt for counted in self.counted)
        return sum(counted.again for counted in self.counted) / max(1, total)

    def _answer_to(self, request: Received) -> Answer:
        if request.path not in WIRES or self._queue:
            return super()._answer_to(request)
        counted = Counted(
            purpose=purpose_of(request),
            call=request.headers.get("x-navi-call", ""),
            prompt=len(tokens_of(request.json)),
            max_tokens=_most(request.json),
        )
        self.counted.append(counted)
        if counted.prompt >= self.window:
            counted.refused = True
            return _too_long(request.path, counted.prompt, self.window)
        return Answer(parts=self._answering(request, counted))

    def _answering(self, request: Received, counted: Counted) -> Iterator[Part]:
        while not self._free:
            turn = asyncio.Event()
            self._waiting.append((request, turn))
            yield Stall(turn)
        prompt = tokens_of(request.json)
        slot = max(sorted(self._free), key=lambda n: _common(self._caches[n], prompt))
        self._free.discard(slot)
        self._taken[id(request)] = slot
        self.most_at_once = max(self.most_at_once, len(self._taken))
        # The last token is always read, for there to be something to go on from.
        counted.cached = min(_common(self._caches[slot], prompt), len(prompt) - 1)
        known = max((_common(read, prompt) for read in self._read), default=0)
        counted.again = max(0, min(known, len(prompt) - 1) - counted.cached)
        self._caches[slot] = prompt
        if self._prefill is not None:
            yield Sleep((len(prompt) - counted.cached) / self._prefill)
        self._read = [read for read in self._read if _common(read, prompt) < len(read)]
        self._read.append(prompt)
        yield from self._said(request, counted, self._caches[slot])

    def _said(self, request: Received, counted: Counted, cache: list[str]) -> Iterator[Part]:
        room = self.window - counted.prompt
        limit = room if counted.max_tokens is None else min(room, counted.max_tokens)
        ending = Done()
        for part in self.mind(request):
            match part:
                case Say(text=text) | Think(text=text):
                    for token in _TOKEN.findall(text):
                        if counted.completion >= limit:
                            yield self._done(counted, "length")
                            return
                        counted.completion += 1
                        cache.append(token)
                        yield type(part)(token)
                        yield Sleep(0)
                case Calls(calls=calls):
                    written = json.dumps(calls)
                    if counted.completion + len(_TOKEN.findall(written)) > limit:
                        counted.completion = limit
                        yield from _half(request.path, calls)
                        yield self._done(counted, "length")
                        return
                    counted.completion += len(_TOKEN.findall(written))
                    yield part
                case Done():
                    ending = part
                case _:
                    yield part
        yield self._done(counted, ending.reason)

    def _done(self, counted: Counted, reason: str) -> Done:
        counted.reason = reason
        return Done(
            reason=reason,
            prompt=counted.prompt,
            completion=counted.completion,
            cached=counted.cached,
        )

    def _ended(self, request: Received) -> None:
        for counted in self.counted:
            if counted.call and counted.call == request.headers.get("x-navi-call"):
                counted.told = counted.reason != "" and not request.client_left
        self._waiting = deque(waits for waits in self._waiting if waits[0] is not request)
        slot = self._taken.pop(id(request), None)
        if slot is None:
            return
        self._free.add(slot)
        if self._waiting:
            self._waiting.popleft()[1].set()


def plain_mind(request: Received) -> Iterable[Part]:
    """A model without wit, whose answers are of the form that is asked for."""
    match purpose_of(request):
        case "naming":
            return (Say("A talk"),)
        case "memory":
            return (Say("NONE"),)
        case "compression":
            return (Say("- they talked, and it went well"),)
        case "planning" | "review":
            return (Say("DIRECT"),)
        case _:
            return (Say("Yes, that is so."),)


def tokens_of(body: Any) -> list[str]:
    """The tokens of a request, as a chat template would write it out: the tools stand at the top."""
    messages: Sequence[Any] = body["messages"]
    lines: list[str] = []
    for place, message in enumerate(messages):
        tools = body.get("tools") if place == 0 else None
        calls: list[Any] = message.get("tool_calls") or []
        said: list[Any] = [call["function"] for call in calls]
        lines += [
            f"<|{message['role']}|>",
            *([json.dumps(tools)] if tools else []),
            message.get("content") or "",
            *([json.dumps([[call["name"], call["arguments"]] for call in said])] if said else []),
        ]
    return _TOKEN.findall("\n".join([*lines, "<|assistant|>", ""]))


def _most(body: Any) -> int | None:
    options: dict[str, Any] = body.get("options") or {}
    return options.get("num_predict", body.get("max_tokens", body.get("max_completion_tokens")))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens two texts begin with alike."""
    size = min(len(one), len(other))
    return next((n for n in range(size) if one[n] != other[n]), size)


def _half(path: str, calls: Sequence[tuple[str, Any]]) -> Iterator[Part]:
    """A call whose arguments break off: the one protocol streams them, the other keeps them back."""
    if path == "/v1/chat/completions":
        name, arguments = calls[0]
        written = json.dumps(arguments)
        yield Calls(((name, written[: len(written) // 2]),))


def _too_long(path: str, prompt: int, window: int) -> Answer:
    message = (
        f"request ({prompt} tokens) exceeds the available context size ({window} tokens), "
        "try increasing it"
    )
    error: Any = {
        "code": 400,
        "message": message,
        "type": "exceed_context_size_error",
        "n_prompt_tokens": prompt,
        "n_ctx": window,
    }
    body = {"error": error if path == "/v1/chat/completions" else message}
    return Answer(parts=(Raw(json.dumps(body).encode()),), status=400)
