"""The events of AG-UI 1.0 that navi sends; what has no value is left out, since a null ends a client's run."""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.events import Json, JsonObject

PROTOCOL_VERSION = "1.0"
ADDED: Literal["add"] = "add"  # of a member that is there already: replaced (RFC 6902, 4.1)


class Event(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Any event; ``timestamp`` in milliseconds since 1970-01-01 UTC."""

    timestamp: int | UnsetType = UNSET


class Attributed(Event, frozen=True, kw_only=True):
    """An event that may be a subagent's."""

    subagent_run_id: str | UnsetType = UNSET


# --- the run ------------------------------------------------------------------------------------


class RunStarted(Event, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """The first event of every run."""

    thread_id: str
    run_id: str
    parent_run_id: str | UnsetType = UNSET
    protocol_version: str = PROTOCOL_VERSION


class Success(Struct, frozen=True, tag_field="type", tag="success"):
    """The agent is done."""


class Cancelled(Struct, frozen=True, tag_field="type", tag="cancelled"):
    """Somebody stopped it."""


class InterruptOutcome(Struct, frozen=True, kw_only=True, tag_field="type", tag="interrupt"):
    """The agent can do nothing until a person decides."""

    interrupts: "tuple[Interrupt, ...]"


class Interrupt(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a person has to decide on."""

    id: str
    reason: str
    message: str
    tool_call_id: str
    response_schema: JsonObject
    metadata: JsonObject
    subagent_run_id: str | UnsetType = UNSET


class TokenUsage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens of all calls of a run."""

    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    total_tokens: int | UnsetType = UNSET
    cached_input_tokens: int | UnsetType = UNSET


class RunFinished(Event, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """The last event of a run that did not fail."""

    thread_id: str
    run_id: str
    outcome: Success | Cancelled | InterruptOutcome
    usage: tuple[TokenUsage, ...] | UnsetType = UNSET


class RunError(Event, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """The last event of a run that failed."""

    message: str
    code: str


# --- what is said -------------------------------------------------------------------------------


class TextMessageStart(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """A message begins."""

    message_id: str
    role: Literal["assistant", "user"] = "assistant"


class TextMessageContent(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of a message."""

    message_id: str
    delta: str


class TextMessageEnd(Attributed, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """A message is whole."""

    message_id: str


class ReasoningStart(Attributed, frozen=True, kw_only=True, tag="REASONING_START"):
    """Thinking begins."""

    message_id: str


class ReasoningMessageStart(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_START"):
    """The text of thinking begins."""

    message_id: str
    role: Literal["reasoning"] = "reasoning"


class ReasoningMessageContent(
    Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"
):
    """More of it."""

    message_id: str
    delta: str


class ReasoningMessageEnd(Attributed, frozen=True, kw_only=True, tag="REASONING_MESSAGE_END"):
    """The text of thinking is whole."""

    message_id: str


class ReasoningEnd(Attributed, frozen=True, kw_only=True, tag="REASONING_END"):
    """Thinking is over."""

    message_id: str


# --- what is done -------------------------------------------------------------------------------


class ToolCallStart(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The model asks for a tool."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """Its arguments, as JSON."""

    tool_call_id: str
    delta: str


class ToolCallEnd(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """The arguments are whole."""

    tool_call_id: str


class ToolCallResult(Attributed, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """What a tool gave."""

    message_id: str
    tool_call_id: str
    content: str
    metadata: JsonObject
    role: Literal["tool"] = "tool"


class SubagentStarted(Event, frozen=True, kw_only=True, tag="SUBAGENT_STARTED"):
    """A subagent sets to work."""

    subagent_run_id: str
    name: str
    description: str | UnsetType = UNSET
    parent_subagent_run_id: str | UnsetType = UNSET
    parent_tool_call_id: str | UnsetType = UNSET


class Suspended(Struct, frozen=True, tag_field="type", tag="suspended"):
    """A subagent goes on in a later run."""


class SubagentFinished(Event, frozen=True, kw_only=True, tag="SUBAGENT_FINISHED"):
    """A subagent came back; or it goes on in a later run."""

    subagent_run_id: str
    outcome: Success | Suspended
    result: str | UnsetType = UNSET


class SubagentError(Event, frozen=True, kw_only=True, tag="SUBAGENT_ERROR"):
    """A subagent came back without having done its task."""

    subagent_run_id: str
    message: str


# --- what is so ---------------------------------------------------------------------------------


class Patch(Struct, frozen=True, kw_only=True):
    """A step of a JSON Patch that sets a member."""

    path: str
    value: Json
    op: Literal["add"] = ADDED


class ActivitySnapshot(Attributed, frozen=True, kw_only=True, tag="ACTIVITY_SNAPSHOT"):
    """An activity as it is."""

    message_id: str
    activity_type: str
    content: JsonObject


class ActivityDelta(Attributed, frozen=True, kw_only=True, tag="ACTIVITY_DELTA"):
    """What has changed in an activity."""

    message_id: str
    activity_type: str
    patch: tuple[Patch, ...]


class StateSnapshot(Event, frozen=True, kw_only=True, tag="STATE_SNAPSHOT"):
    """The state as it is."""

    snapshot: JsonObject


class StateDelta(Event, frozen=True, kw_only=True, tag="STATE_DELTA"):
    """What has changed in the state."""

    delta: tuple[Patch, ...]


class MessagesSnapshot(Event, frozen=True, kw_only=True, tag="MESSAGES_SNAPSHOT"):
    """The conversation as it is."""

    messages: tuple[JsonObject, ...]


class Custom(Attributed, frozen=True, kw_only=True, tag="CUSTOM"):
    """What AG-UI has no event for; names begin with ``navi.``."""

    name: str
    value: Json


def encode(event: Event) -> bytes:
    """An event as JSON."""
    return msgspec.json.encode(event)
