"""Encode events as rows of a log: payload bytes, salt, digest, hash chain.

Shared by all logs, so that the same events give rows that differ in their salts only.
"""

import os
from datetime import datetime

from msgspec import Struct

from navi.domain.log.hash_chain import SALT_BYTES, Links, digest_of
from navi.domain.vocabulary.errors import BadInput, EventTooLarge
from navi.domain.vocabulary.event_codec import (
    MAX_ENVELOPE_BYTES,
    encode_data,
    encode_envelope,
    type_of,
    version_of,
)
from navi.domain.vocabulary.ids import EventId, Owner, SessionId, SubagentId, TurnId, is_uuid
from navi.ports.event_log import Append, NewEvent, Recorded

_HEADER_ROOM = 1024  # bytes; the fields around the payload are shorter, save for an odd type name


class EncodedEvent(Struct, frozen=True, kw_only=True):
    """A new event, encoded; it has no place yet."""

    id: EventId
    type: str
    v: int
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    data: bytes
    salt: bytes
    digest: bytes


def encode_events(batch: Append) -> tuple[EncodedEvent, ...]:
    """The events of an append, encoded and salted.

    Raises:
        EventTooLarge: an envelope would be above the limit.
        BadInput: an id is not a UUID in canonical lower case; stored, it would come back changed.
    """
    if not is_uuid(batch.session_id):
        raise BadInput("session_id", f"{batch.session_id!r} is not a UUID in lower case")
    salts = os.urandom(SALT_BYTES * len(batch.events))
    for turn_id in {new.turn_id for new in batch.events}:
        if turn_id is not None and not is_uuid(turn_id):
            raise BadInput("turn_id", f"{turn_id!r} is not a UUID in lower case")
    return tuple(
        [
            _encode(batch, new, nth=nth, salt=salts[SALT_BYTES * nth : SALT_BYTES * (nth + 1)])
            for nth, new in enumerate(batch.events)
        ]
    )


def hashes_of(
    events: tuple[EncodedEvent, ...], *, session_id: SessionId, expected: int, previous: bytes
) -> list[bytes]:
    """The hash of each event, the first following ``previous``."""
    hashes: list[bytes] = []
    links = Links()
    for seq, event in enumerate(events, expected + 1):
        previous = links.next(
            previous,
            session_id,
            seq,
            event.id,
            event.type,
            event.v,
            event.at,
            event.turn_id,
            event.subagent_id,
            event.digest,
        )
        hashes.append(previous)
    return hashes


def recorded(
    events: tuple[EncodedEvent, ...],
    hashes: list[bytes],
    *,
    partition: int,
    position: int,
    owner: Owner,
    session_id: SessionId,
    expected: int,
) -> tuple[Recorded, ...]:
    """The rows that the events have become; the first stands at ``position``."""
    return tuple(
        [
            Recorded(
                partition=partition,
                position=position + nth,
                owner=owner,
                session_id=session_id,
                seq=expected + 1 + nth,
                id=event.id,
                type=event.type,
                v=event.v,
                at=event.at,
                turn_id=event.turn_id,
                subagent_id=event.subagent_id,
                data=event.data,
                salt=event.salt,
                digest=event.digest,
                hash=hashes[nth],
            )
            for nth, event in enumerate(events)
        ]
    )


def _encode(batch: Append, new: NewEvent, *, nth: int, salt: bytes) -> EncodedEvent:
    if not is_uuid(new.id):
        raise BadInput("id", f"{new.id!r} is not a UUID in lower case")
    event = new.event
    data, name, version = encode_data(event), type_of(event), version_of(event)
    if len(data) + len(name) > MAX_ENVELOPE_BYTES - _HEADER_ROOM:
        size = len(
            encode_envelope(
                session_id=batch.session_id,
                seq=batch.expected + 1 + nth,
                id=new.id,
                type=name,
                v=version,
                at=new.at,
                turn_id=new.turn_id,
                subagent_id=new.subagent_id,
                data=data,
            )
        )
        if size > MAX_ENVELOPE_BYTES:
            raise EventTooLarge(f"{name} would be {size} bytes, the limit is {MAX_ENVELOPE_BYTES}")
    return EncodedEvent(
        id=new.id,
        type=name,
        v=version,
        at=new.at,
        turn_id=new.turn_id,
        subagent_id=new.subagent_id,
        data=data,
        salt=salt,
        digest=digest_of(salt, data),
    )
