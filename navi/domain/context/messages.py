"""A message of a buffer, as people and models see it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from navi.domain.vocabulary.events import Said, ToolCall
from navi.domain.vocabulary.ids import CallId, MessageId, SubagentId, TurnId


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

    ``picture`` is what a message of ``context`` shows to models that see. ``taken_in`` is a conversation
    that one event brought in: see ``one_by_one``.
    """

    seq: int
    role: Literal["user", "assistant", "tool"]
    content: str
    at: datetime
    turn_id: TurnId | None
    message_id: MessageId | UnsetType = UNSET
    files: tuple[str, ...] | UnsetType = UNSET
    picture: Picture | UnsetType = UNSET
    taken_in: tuple[Said, ...] | UnsetType = UNSET
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


def one_by_one(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages of a buffer, those of a conversation that was taken in one after another.

    In the buffer they are one row, since one event brought them: nothing is cut, hidden or paged within
    it. What the row itself says, such as changed instructions, comes before them.
    """
    for message in messages:
        if message.taken_in is UNSET:
            yield message
            continue
        if message.content:
            yield replace(message, taken_in=UNSET)
        for said in message.taken_in:
            yield Message(
                seq=message.seq,
                role=said.role,
                content=said.content,
                at=message.at,
                turn_id=None,
            )
