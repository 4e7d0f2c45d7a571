"""One model server: requests, streamed chunks, capabilities."""

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

from msgspec import Struct

from navi.domain.context.prompt import ModelRequest
from navi.domain.vocabulary.events import JsonObject, Purpose, Usage
from navi.domain.vocabulary.ids import CallId


class ThinkingChunk(Struct, frozen=True):
    """A piece of thinking."""

    text: str


class TextChunk(Struct, frozen=True):
    """A piece of text."""

    text: str


class ToolCallChunk(Struct, frozen=True):
    """The server began or sent a tool call: from here on the call must not be tried again.

    May come several times a reply: each one is also a sign of life while arguments are written.
    """


class RequestedCall(Struct, frozen=True, kw_only=True):
    """A tool call as the model wrote it.

    Attributes:
        arguments: None where what the model wrote is not a JSON object.
        raw_arguments: what it wrote, for the answer to the model.
        mended: whether the arguments were mended before, as in a recording.
    """

    name: str
    arguments: JsonObject | None
    raw_arguments: str
    mended: bool = False


class FinalChunk(Struct, frozen=True, kw_only=True):
    """The end of a good stream."""

    finish_reason: str
    usage: Usage
    tool_calls: tuple[RequestedCall, ...] = ()


ModelChunk = ThinkingChunk | TextChunk | ToolCallChunk | FinalChunk


class Capacity(Struct, frozen=True, kw_only=True):
    """What a server says of a model.

    Attributes:
        context_window: tokens of one call, prompt and answer; None where it does not say.
        slots: calls that it takes side by side; None where it does not say.
        sees: whether messages may hold pictures; None where it does not say: then they may until it
            refuses one.
    """

    context_window: int | None = None
    slots: int | None = None
    sees: bool | None = None


ServerState = Literal["ready", "loading", "away"]


class LanguageModel(Protocol):
    """One model server. Every implementation passes ``tests/contracts/language_model.py``."""

    @property
    def backend(self) -> str:
        """Its name in ``model_called``: the kind and the address, such as ``ollama@http://host:11434``."""
        ...

    @property
    def renderer(self) -> str:
        """Kind and version of ``render`` now, such as ``ollama/1``; a refusal may change both."""
        ...

    @property
    def chunk_timeout(self) -> float:
        """Seconds of silence between two chunks that are still in order."""
        ...

    def render(self, request: ModelRequest) -> bytes:
        """The body of the request, a pure function of ``request`` and of ``renderer``."""
        ...

    def stream(
        self, body: bytes, *, purpose: Purpose, call_id: CallId
    ) -> AsyncGenerator[ModelChunk, None]:
        """Send a rendered body; ends with exactly one FinalChunk.

        Closing the generator closes the connection to the server at once. Who is waiting for a
        chunk cancels that wait, which does the same, before the headers came too. Time-outs between
        chunks are the caller's; connecting has one of its own.

        Raises:
            ModelFailure: of kind ``connection``, ``http`` or ``protocol``.
        """
        ...

    async def models(self) -> tuple[str, ...]:
        """The names of the models it offers, in its order.

        Raises:
            ModelFailure: it does not answer.
        """
        ...

    async def supports_thinking(self, model: str) -> bool:
        """Whether ``ModelOptions.think`` may be true for a model; asked once a model, then known.

        False where the server does not say or does not answer: then it is asked again next time.
        """
        ...

    async def capacity(self, model: str) -> Capacity:
        """What the server says of a model; never raises.

        Kept for a time; asked again when the server had gone away, or did not say.
        """
        ...

    async def readiness(self) -> ServerState:
        """Whether a call would be taken now, is too early, or finds nobody; cheap, never raises."""
        ...


class Renderers(Protocol):
    """All versions of all renderers, to reproduce requests."""

    def render_again(self, renderer: str, request: ModelRequest) -> bytes:
        """The body as the named renderer writes it, whichever backend is in use today.

        Raises:
            NotFound: no such renderer.
        """
        ...
