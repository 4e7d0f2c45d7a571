"""Frames of the WebSocket besides events: requests of clients and their answers."""

from typing import cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.errors import BadInput, NaviError, OutOfBudget
from navi.domain.vocabulary.events import Decision, DecisionScope, JsonObject, Mode
from navi.domain.vocabulary.ids import MessageId, SessionId
from navi.http.requests.bodies import decode_json
from navi.http.requests.errors import ErrorCode, Limited, answer_of, told_as
from navi.http.requests.validation import ContentText, FileNames, MessageIdText, NoteText

# --- from the client ----------------------------------------------------------------------------


class SendMessage(
    Struct, frozen=True, kw_only=True, tag="message", tag_field="type", forbid_unknown_fields=True
):
    """Say something; its receipt among the events is the answer."""

    content: ContentText
    message_id: MessageIdText | None = None
    files: FileNames = ()
    mode: Mode = "queue"


class Stop(
    Struct, frozen=True, kw_only=True, tag="stop", tag_field="type", forbid_unknown_fields=True
):
    """Stop the open turn; without one nothing happens."""


class Approve(
    Struct, frozen=True, kw_only=True, tag="approve", tag_field="type", forbid_unknown_fields=True
):
    """Decide on a tool call that waits; ``approval_decided`` among the events is the answer."""

    call_id: str
    decision: Decision
    scope: DecisionScope = "once"
    arguments: JsonObject | None = None
    note: NoteText | None = None


class Ping(
    Struct, frozen=True, kw_only=True, tag="ping", tag_field="type", forbid_unknown_fields=True
):
    """Ask for a ``pong``: browsers do not see the protocol's own pings."""


ClientFrame = SendMessage | Stop | Approve | Ping

# msgspec decodes unions as well as classes; ``type[T]`` has no word for them.
_CLIENT_FRAME = cast("type[ClientFrame]", ClientFrame)

# --- from the server ----------------------------------------------------------------------------


class ReadyFrame(Struct, frozen=True, kw_only=True, tag="ready", tag_field="type"):
    """The first frame; ``seq`` is the head of the log at that moment."""

    session_id: SessionId
    seq: int
    running: bool


class PongFrame(Struct, frozen=True, kw_only=True, tag="pong", tag_field="type"):
    """The answer to ``ping``."""


class ErrorFrame(Struct, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """A frame was refused; the socket stays open.

    Attributes:
        retry_after: seconds until it would be taken, of ``limited``.
    """

    code: ErrorCode
    message: str
    retry_after: int | UnsetType = UNSET


class ReceiptFrame(Struct, frozen=True, kw_only=True, tag="receipt", tag_field="type"):
    """The message was received before, at ``seq``: this time there is no event that says so."""

    message_id: MessageId
    seq: int


ServerFrame = ReadyFrame | PongFrame | ErrorFrame | ReceiptFrame


class Close(Struct, frozen=True, kw_only=True):
    """How a connection ends; ``code`` as in RFC 6455, 4000 and above are navi's own."""

    code: int
    reason: str


SIGNED_OUT = Close(code=4401, reason="no longer signed in")
UNKNOWN_SESSION = Close(code=4404, reason="no such session")
TOO_SLOW = Close(code=1013, reason="too far behind; come back with the last seq")
DRAINING = Close(code=1001, reason="this node is shutting down; come back")
NO_LOG = Close(code=1012, reason="Postgres does not answer; come back")
BROKEN = Close(code=1011, reason="something went wrong inside navi")


def parse_frame(text: str) -> ClientFrame:
    """Parse a frame of a client.

    Raises:
        BadInput: the frame is not understood.
    """
    return decode_json(text, _CLIENT_FRAME, whole="frame")


def encode_frame(frame: ServerFrame) -> bytes:
    """A frame as JSON."""
    return msgspec.json.encode(frame)


def error_frame(error: NaviError) -> ErrorFrame:
    """The error frame for a refused frame."""
    retry_after = error.retry_after if isinstance(error, Limited | OutOfBudget) else None
    return ErrorFrame(
        code=_code(error),
        message=answer_of(error).problem.detail,
        retry_after=UNSET if retry_after is None else retry_after,
    )


def _code(error: NaviError) -> ErrorCode:
    match error:
        case BadInput(field="frame"):
            return "bad_frame"
        case Limited():
            return "limited"
        case _:
            return told_as(error).code
