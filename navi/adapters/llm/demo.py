"""The demo model: needs no server, does what a script in the message tells it."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from navi.adapters.llm import demo_script
from navi.adapters.llm.demo_script import (
    Action,
    CallTool,
    Count,
    Fail,
    ReportFinish,
    Results,
    Say,
    Script,
    SetPace,
    Sleep,
    Think,
)
from navi.adapters.llm.wire_json import ReplyLimit, requested_call
from navi.domain.context.prompt import ModelRequest, PromptMessage, files_attached, files_below
from navi.domain.memory.remembering import beginning_of
from navi.domain.vocabulary.errors import BadInput, ModelFailure
from navi.domain.vocabulary.events import Purpose, Usage
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

RENDERER = "demo/2"
RENDERER_WITH_ATTACHED = "demo/1"
MODEL = "demo"
DEFAULT_CHUNK_TIMEOUT = 60.0  # seconds
SLOTS = 10_000  # it waits for nothing: as many as ask
DEFAULT_PACE = 0.02  # seconds between pieces: as fast as a small local model
TITLE_WORDS = 6
SHOWN = 200  # characters of a summary

GREETING = """\
I am navi's demo model: no language model answers here yet, I only repeat what you say. You wrote:

> {said}

To connect a real model, start Ollama (`ollama pull qwen3` and then `navi serve` again), or set \
OPENAI_BASE_URL, OPENAI_API_KEY and NAVI_MODEL for any OpenAI-compatible server. Until then I can \
show what navi does: send me a line such as `!tool filesystem {{"action": "list"}}`; \
`navi demo-script` prints all that I understand."""

_PIECES = re.compile(r"\s*\S+|\s+")


class DemoModel:
    """The demo model; what it answers depends on the body, the purpose and nothing else."""

    def __init__(self, *, pace: float, chunk_timeout: float) -> None:
        """A demo model.

        Args:
            pace: seconds between two pieces of text; ``DEFAULT_PACE`` for people to watch.
            chunk_timeout: seconds of silence between two chunks that are still in order.
        """
        self._pace = pace
        self._chunk_timeout = chunk_timeout

    @property
    def backend(self) -> str:
        return "demo"

    @property
    def renderer(self) -> str:
        return RENDERER

    @property
    def chunk_timeout(self) -> float:
        return self._chunk_timeout

    def render(self, request: ModelRequest) -> bytes:
        return render(request)

    async def stream(
        self,
        body: bytes,
        *,
        purpose: Purpose,
        call_id: CallId,
    ) -> AsyncGenerator[ModelChunk, None]:
        request = msgspec.json.decode(body, type=ModelRequest)
        reply = _Reply(prompt_tokens=len(body) // 4, pace=self._pace)
        for action in actions(request, purpose):
            match action:
                case Sleep(seconds=seconds):
                    await asyncio.sleep(seconds)
                case SetPace(seconds=seconds):
                    reply.pace = seconds
                case Think() | Say() | Results():
                    for chunk in reply.speak(action, request.messages):
                        yield chunk
                        await asyncio.sleep(reply.pace)
                case CallTool(name=name, arguments=arguments):
                    reply.calls.append(requested_call(name, arguments))
                    yield ToolCallChunk()
                case Count(prompt=prompt, answer=answer):
                    reply.counted = Usage(prompt_tokens=prompt, completion_tokens=answer)
                case ReportFinish(reason=reason):
                    reply.finish_reason = reason
                case Fail(kind=kind, status=status):
                    raise ModelFailure(
                        kind,
                        "the demo script asks for this",
                        status=status,
                        tool_calls_came=bool(reply.calls),
                    )
                case _:
                    assert_never(action)
        yield reply.end()

    async def models(self) -> tuple[str, ...]:
        return (MODEL,)

    async def supports_thinking(self, model: str) -> bool:
        return True

    async def capacity(self, model: str) -> Capacity:
        return Capacity(slots=SLOTS, sees=False)  # it reads whatever it is given

    async def readiness(self) -> ServerState:
        return "ready"

    async def aclose(self) -> None:
        """Nothing is open."""


def render(request: ModelRequest, *, below: bool = True) -> bytes:
    """The request itself as JSON, as it was before messages knew their turns and files.

    Args:
        below: whether files are told in the words of today, or in those of ``demo/1``.
    """
    told = files_below(request.messages) if below else files_attached(request.messages)
    messages = tuple(replace(message, turn_id=UNSET) for message in told)
    return msgspec.json.encode(replace(request, messages=messages))


def actions(request: ModelRequest, purpose: Purpose) -> Sequence[Action]:
    """What the demo model does with a request, in order."""
    said = [
        message.content
        for message in request.messages
        if message.role == "user" and not message.is_guidance
    ]
    match purpose:
        case "turn":
            return _turn(request)
        case "planning":
            steps = [step for text in said for step in _script_or_nothing(text).plan]
            return (Say(_plan(steps) if steps else "DIRECT"),)
        case "review":
            return (Say("OK"),)
        case "compression":
            return (Say(_summary(request.messages)),)
        case "naming":
            return (Say(_title(said)),)
        case "memory":
            question = request.messages[-1].content  # it names the messages that it is about
            told = [text for text in said if f"> {beginning_of(text)}" in question]
            facts = [fact for text in told for fact in _script_or_nothing(text).facts]
            return (Say("\n".join(f"- {fact}" for fact in facts) or "NONE"),)
        case _:
            assert_never(purpose)


class _Reply:
    """A reply in the making."""

    def __init__(self, *, prompt_tokens: int, pace: float) -> None:
        self.pace = pace
        self.calls: list[RequestedCall] = []
        self.counted: Usage | None = None
        self.finish_reason = "stop"
        self._prompt_tokens = prompt_tokens
        self._pieces = 0
        self._spoken = False
        self._limit = ReplyLimit()

    def speak(
        self, action: Think | Say | Results, messages: Sequence[PromptMessage]
    ) -> Iterator[ModelChunk]:
        """The chunks of a line of thinking or text, a word each."""
        match action:
            case Think(text=text):
                for piece in _PIECES.findall(text):
                    self._pieces += 1
                    yield ThinkingChunk(self._limit.text(piece))
                return
            case Say(text=text, times=times):
                lines = ((text if number == 0 else f" {text}") for number in range(times))
            case Results():
                lines = iter((results(messages),))
            case _:
                assert_never(action)
        if self._spoken:
            yield TextChunk("\n")
        self._spoken = True
        for line in lines:
            for piece in _PIECES.findall(line):
                self._pieces += 1
                yield TextChunk(self._limit.text(piece))

    def end(self) -> FinalChunk:
        counted = Usage(prompt_tokens=self._prompt_tokens, completion_tokens=self._pieces)
        return FinalChunk(
            finish_reason=self.finish_reason,
            usage=self.counted or counted,
            tool_calls=tuple(self.calls),
        )


def _turn(request: ModelRequest) -> Sequence[Action]:
    """The reply of the script that the user's last message is.

    A turn goes on as long as replies call tools, so those since the message tell which reply is due.
    """
    last = max(
        (
            place
            for place, message in enumerate(request.messages)
            if message.role == "user" and not message.is_guidance
        ),
        default=None,
    )
    if last is None:
        return (Say(GREETING.format(said="(nothing)")),)
    said = request.messages[last].content
    if not demo_script.is_script(said):
        return (Say(GREETING.format(said=said.replace("\n", "\n> "))),)
    try:
        script = demo_script.parse_script(said)
    except BadInput as error:
        return (Say(f"I do not understand this line of the script: {error}"),)
    due = sum(bool(message.tool_calls) for message in request.messages[last:])
    reply = script.replies[due] if due < len(script.replies) else ()
    if not request.tools and any(isinstance(action, CallTool) for action in reply):
        without_calls = [action for action in reply if not isinstance(action, CallTool)]
        return (*without_calls, Say("(No tools are offered, so none is called.)"))
    return reply or ((Say("The tools gave back:"), Results()) if due else (Say("Done."),))


def _script_or_nothing(text: str) -> Script:
    try:
        return demo_script.parse_script(text)
    except BadInput:
        return Script(replies=(), plan=(), facts=())


def results(messages: Sequence[PromptMessage]) -> str:
    """What the tools gave back since the model last spoke."""
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant":
            break
        if message.role == "tool":
            results.append(f"{message.name}: {message.content}")
    return "\n".join(reversed(results)) or "(no results)"


def _plan(steps: Sequence[str]) -> str:
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    return "\n".join(["PLAN", *numbered, "Complexity: simple", "Milestones:", "- All steps done"])


def _summary(messages: Sequence[PromptMessage]) -> str:
    """The first words of what is to be summarised; the question for it is not among them."""
    contents = [message.content for message in messages[:-1] if message.role != "system"]
    # Written out, it stands in the question itself.
    words = " ".join(" ".join(contents or [messages[-1].content]).split())
    return f"- {words[:SHOWN]}"


def _title(said: Sequence[str]) -> str:
    """The first words that the user said, without the marks of a script."""
    words = re.sub(r"(?m)^\s*!\w+", "", said[0] if said else "").split()
    return " ".join(words[:TITLE_WORDS])[:80] or "Demo"
