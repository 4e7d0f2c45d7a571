"""What a model is sent, before a backend writes it in its own wire format."""

from typing import Literal

from msgspec import Struct

from navi.domain.events import JsonObject, ToolCall
from navi.domain.ids import CallId


class PromptMessage(Struct, frozen=True, kw_only=True):
    """A message of a request; ``thinking`` is the assistant's own, of the present turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    thinking: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: CallId | None = None
    name: str | None = None


class ToolSchema(Struct, frozen=True, kw_only=True):
    """A tool as it is offered to a model; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject


class ModelOptions(Struct, frozen=True, kw_only=True):
    """How the model should answer; these stand in ``model_called.options``.

    Attributes:
        num_ctx: context window in tokens, where the server lets one ask for it.
        think: whether a thinking model should think; None leaves it to the server.
    """

    temperature: float | None = None
    num_ctx: int | None = None
    think: bool | None = None


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request to a model."""

    model: str
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    options: ModelOptions = ModelOptions()
