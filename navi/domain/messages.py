"""A message of a buffer, as people and models see it."""

from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from navi.domain.events import ToolCall
from navi.domain.ids import CallId, MessageId, SubagentId, TurnId


class Picture(Struct, frozen=True, kw_only=True):
    """A picture as it is sent; where its Base64 text is kept. Width and height are pixels."""

    path: str
    sha256: str
    media_type: str
    width: int
    height: int
    base64_sha256: str


class Message(Struct, frozen=True, kw_only=True):
    """One message of ``messages`` or ``context``; ``seq`` is of the event that brought it about.

    ``picture`` is what a message of ``context`` shows to models that see.
    """

    seq: int
    role: Literal["user", "assistant", "tool"]
    content: str
    at: datetime
    turn_id: TurnId | None
    message_id: MessageId | UnsetType = UNSET
    files: tuple[str, ...] | UnsetType = UNSET
    picture: Picture | UnsetType = UNSET
    tool_calls: tuple[ToolCall, ...] | UnsetType = UNSET
    call_id: CallId | UnsetType = UNSET
    name: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    is_plan: bool = False
    is_compression: bool = False
    is_summary: bool = False
    is_guidance: bool = False
    is_partial: bool = False
    is_withdrawn: bool = False
    is_subagent: bool = False
    subagent_id: SubagentId | UnsetType = UNSET
