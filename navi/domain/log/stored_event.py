"""An event as it is stored, in the log and in exports: its payload in bytes, and its hashes."""

from datetime import datetime

from msgspec import Struct

from navi.domain.vocabulary.event_codec import decode_data, encode_envelope
from navi.domain.vocabulary.events import Envelope
from navi.domain.vocabulary.ids import EventId, SessionId, SubagentId, TurnId


class StoredEvent(Struct, frozen=True, kw_only=True):
    """An event in its session, and its link of the hash chain.

    Attributes:
        data: payload as JSON, verbatim.
        salt: 16 bytes; None where it went with the payload.
        digest: sha256(salt + data), 32 bytes.
        hash: sha256 over the previous event's hash and the length-prefixed header, 32 bytes.
    """

    session_id: SessionId
    seq: int
    id: EventId
    type: str
    v: int
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    data: bytes
    salt: bytes | None
    digest: bytes
    hash: bytes


def envelope_of(event: StoredEvent) -> Envelope:
    """The envelope, decoded.

    Raises:
        LogDamaged: the payload is not what its type says.
    """
    return Envelope(
        session_id=event.session_id,
        seq=event.seq,
        id=event.id,
        at=event.at,
        turn_id=event.turn_id,
        subagent_id=event.subagent_id,
        event=decode_data(event.type, event.v, event.data),
    )


def wire_of(event: StoredEvent) -> bytes:
    """The envelope as JSON bytes, as it is on the wire."""
    return encode_envelope(
        event.session_id,
        event.seq,
        event.id,
        event.type,
        event.v,
        event.at,
        event.turn_id,
        event.subagent_id,
        event.data,
    )
