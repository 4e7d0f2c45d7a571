"""Encode and decode events: the stored payload, and the envelope on the wire.

The bytes of an envelope are the same on the WebSocket, on NATS, in exports and over HTTP, and never
change: the stored payload is copied into them as it stands.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.events import (
    EVENT_TYPES,
    AgentEvent,
    JsonObject,
    KnownEvent,
    UnknownEvent,
)
from navi.domain.vocabulary.upcasting import UPCASTERS, Upcaster

MAX_ENVELOPE_BYTES = 768 * 1024  # with its headers below the 1 MiB that a stock NATS server takes

_encoder = msgspec.json.Encoder()
_quote = _encoder.encode


def type_of(event: AgentEvent) -> str:
    """The stored name of an event's type."""
    return event.name if type(event) is UnknownEvent else event.TYPE


def version_of(event: AgentEvent) -> int:
    """The version of an event's payload."""
    return event.version if type(event) is UnknownEvent else event.V


def encode_data(event: AgentEvent) -> bytes:
    """The payload of an event as JSON bytes."""
    return bytes(event.data) if type(event) is UnknownEvent else _encoder.encode(event)


class EventDecoder:
    """Reads stored payloads of a vocabulary, in whatever version they were written."""

    def __init__(
        self,
        types: Mapping[str, type[KnownEvent]],
        upcasters: Mapping[tuple[str, int], Upcaster],
    ) -> None:
        """Set the event types to decode.

        Raises:
            ValueError: the steps do not lead from every version of every type to the present one.
        """
        need = {(name, v) for name, kind in types.items() for v in range(1, kind.V)}
        odd = sorted(need ^ upcasters.keys())
        if odd:
            raise ValueError(f"upcasters that lack or have no version to lead to: {odd}")
        self._types = dict(types)
        self._upcasters = dict(upcasters)
        self._decoders: dict[str, Callable[[bytes], AgentEvent]] = {
            name: msgspec.json.Decoder(kind).decode for name, kind in types.items()
        }

    def decode(self, name: str, version: int, data: bytes) -> AgentEvent:
        """The event that stands in a payload; a type from the future comes back unread.

        Payloads grow by addition, so of a version from the future what is known is read. Where not
        even that stands in it, it comes back unread, too.

        Raises:
            LogDamaged: the payload is not what its type and version say.
        """
        decode = self._decoders.get(name)
        if decode is None or version < 1:
            return UnknownEvent(name=name, version=version, data=msgspec.Raw(data))
        if version > self._types[name].V:
            try:
                return decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return UnknownEvent(name=name, version=version, data=msgspec.Raw(data))
        try:
            if version == self._types[name].V:
                return decode(data)
            return self._upcast(name, version, data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if _is_erased(data):  # by a navi that did not know the type: its structure is gone, too
                return UnknownEvent(name=name, version=version, data=msgspec.Raw(data))
            raise LogDamaged(f"payload of a {name} is not readable: {error}") from error

    def _upcast(self, name: str, version: int, data: bytes) -> AgentEvent:
        kind = self._types[name]
        payload = msgspec.json.decode(data, type=JsonObject)
        try:
            for step in range(version, kind.V):
                payload = self._upcasters[name, step](payload)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # A step says what it needs by taking it; a payload without it is not of that version.
            raise LogDamaged(
                f"payload of a {name} of version {version} cannot be brought up to date: {error!r}"
            ) from error
        return msgspec.convert(payload, kind)


class _Mark(Struct):
    erased: bool = False


def _is_erased(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Mark).erased
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


decode_data = EventDecoder(EVENT_TYPES, UPCASTERS).decode


def format_at(at: datetime) -> str:
    """A moment as it stands in envelopes: UTC, microseconds, ``Z``."""
    # In C, where msgspec writes the same: four times as fast, and every event needs it for its hash.
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    text = _quote(at)[1:-1].decode()
    return text if at.microsecond else f"{text[:-1]}.000000Z"


def encode_envelope(
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
    """The envelope as JSON bytes, with ``data`` as it stands in the log.

    Named, its values would take a quarter of the time that an envelope takes.
    """
    turn = f'"{turn_id}"' if turn_id is not None else "null"
    subagent = f'"{subagent_id}"' if subagent_id is not None else "null"
    head = (
        f'{{"session_id":"{session_id}","seq":{seq},"id":"{id}","type":{_quote(type).decode()},'
        f'"v":{v},"at":"{format_at(at)}","turn_id":{turn},"subagent_id":{subagent},"data":'
    )
    return b"%b%b}" % (head.encode(), data)
