"""Identifiers, as they stand in events, addresses and subjects."""

import re
from hashlib import sha256
from typing import NewType

from navi.domain.vocabulary.errors import NotFound

SessionId = NewType("SessionId", str)  # UUIDv7, canonical lower case: also a NATS subject token
EventId = NewType("EventId", str)  # UUIDv7
TurnId = NewType("TurnId", str)  # UUIDv7
CallId = NewType(
    "CallId", str
)  # of a model call (UUIDv7) or of a tool call ("call_" + 12 hex digits)
MessageId = NewType("MessageId", str)  # the client's own, or a UUIDv7
SubagentId = NewType("SubagentId", str)  # "subagent_" + 12 hex digits
NodeId = NewType("NodeId", str)  # UUIDv7, made at the start of a process
Owner = NewType("Owner", str)  # "local" without accounts

LOCAL_OWNER = Owner("local")
SYSTEM_OWNER = Owner("system")  # of the audit log

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def owner_stream(owner: Owner) -> SessionId:
    """The stream in which an owner's own facts stand, memories made by hand; in no list of sessions.

    A UUIDv8 (RFC 9562, section 5.8) of the owner's name, the same for ever on every node.
    """
    return SessionId(_uuid8(b"navi owner stream:" + owner.encode()))


def thread_session(thread_id: str) -> SessionId:
    """The session that is kept for a conversation to which another program gave an id of its own.

    A UUIDv8 of that id, so that nothing has to be stored, and two requests at once mean one session.
    """
    return SessionId(_uuid8(b"navi thread:" + thread_id.encode()))


def is_uuid(text: str) -> bool:
    """Whether ``text`` is a UUID in canonical lower case."""
    return _UUID.fullmatch(text) is not None


def parse_session_id(text: str) -> SessionId:
    """The session id that somebody has written, in an address or on a command line.

    Raises:
        NotFound: it cannot be one.
    """
    if not is_uuid(text):
        raise NotFound(f"no session {text[:100]!r}")
    return SessionId(text)


def is_message_id(text: str) -> bool:
    """Whether a client may use ``text`` as the id of a message."""
    return _MESSAGE_ID.fullmatch(text) is not None


def uuid7(*, milliseconds: int, random: bytes) -> str:
    """A UUIDv7 (RFC 9562, section 5.7) in canonical form.

    Args:
        milliseconds: since 1970-01-01 UTC; 48 bits are kept.
        random: 10 bytes, of which 74 bits are kept.
    """
    # Put together as text: every event has one, and this is twice as fast as by bytes.
    time, rest = f"{milliseconds & 0xFFFF_FFFF_FFFF:012x}", random.hex()
    variant = "89ab"[random[2] >> 4 & 3]
    return f"{time[:8]}-{time[8:]}-7{rest[1:4]}-{variant}{rest[5:8]}-{rest[8:20]}"


def seconds_of(uuid: str) -> int:
    """When a UUIDv7 was made, in whole seconds since 1970-01-01 UTC."""
    return int(uuid.replace("-", "")[:12], 16) // 1000


def _uuid8(name: bytes) -> str:
    """A UUIDv8 (RFC 9562, section 5.8): the first 122 bits of the name's SHA-256."""
    raw = bytearray(sha256(name).digest()[:16])
    raw[6] = 0x80 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return _dashed(raw)


def _dashed(raw: bytearray) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


AUDIT_STREAM = owner_stream(SYSTEM_OWNER)
