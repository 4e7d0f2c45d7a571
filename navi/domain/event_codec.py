"""Events to bytes and back: the payload as it is stored, the envelope as everybody gets it.

The bytes of an envelope are the same on the WebSocket, on NATS, in exports and over HTTP, and never
change: the stored payload is copied into them as it stands.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from navi.domain.errors import LogDamaged
from navi.domain.events import EVENT_TYPES, AgentEvent, UnknownEvent

MAX_ENVELOPE_BYTES = 768 * 1024  # with its headers below the 1 MiB that a stock NATS server takes

_encoder = msgspec.json.Encoder()
_decoders: dict[str, Callable[[bytes], AgentEvent]] = {
    name: msgspec.json.Decoder(kind).decode for name, kind in EVENT_TYPES.items()
}
_quote = _encoder.encode


def type_of(event: AgentEvent) -> str:
    """The stored name of an event's type."""
    return event.name if isinstance(event, UnknownEvent) else event.TYPE


def version_of(event: AgentEvent) -> int:
    """The version of an event's payload."""
    return event.version if isinstance(event, UnknownEvent) else event.V


def encode_data(event: AgentEvent) -> bytes:
    """The payload of an event as JSON bytes."""
    return bytes(event.data) if isinstance(event, UnknownEvent) else _encoder.encode(event)


def decode_data(name: str, version: int, data: bytes) -> AgentEvent:
    """The event that ``encode_data`` wrote; a type or version from the future comes back unread.

    Raises:
        LogDamaged: the payload is not what its type says.
    """
    decode = _decoders.get(name)
    if decode is None or version > EVENT_TYPES[name].V:
        return UnknownEvent(name=name, version=version, data=msgspec.Raw(data))
    try:
        return decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(f"payload of a {name} is not readable: {error}") from error


def format_at(at: datetime) -> str:
    """A moment as it stands in envelopes: UTC, microseconds, ``Z``."""
    # Four times as fast as strftime, and every event needs it for its hash.
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def encode_envelope(
    *,
    session_id: str,
    seq: int,
    id: str,  # noqa: A002 - the contract's own name for it
    type: str,  # noqa: A002 - likewise
    v: int,
    at: datetime,
    turn_id: str | None,
    subagent_id: str | None,
    data: bytes,
) -> bytes:
    """The envelope as JSON bytes, with ``data`` as it stands in the log."""
    turn = f'"{turn_id}"' if turn_id is not None else "null"
    subagent = f'"{subagent_id}"' if subagent_id is not None else "null"
    head = (
        f'{{"session_id":"{session_id}","seq":{seq},"id":"{id}","type":{_quote(type).decode()},'
        f'"v":{v},"at":"{format_at(at)}","turn_id":{turn},"subagent_id":{subagent},"data":'
    )
    return b"%b%b}" % (head.encode(), data)
