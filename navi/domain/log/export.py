"""The format of exports: sessions as signed JSON Lines that anybody can verify.

The first line says what follows, one line an event comes after it, session by session, and the last
line signs all bytes before it. The layout stands in ``docs/audit.md``.
"""

import re
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from navi.domain.log.stored_event import StoredEvent, wire_of
from navi.domain.vocabulary.events import Origin
from navi.domain.vocabulary.ids import EventId, Owner, SessionId, SubagentId, TurnId

MAX_HEADER_BYTES = 512 * 1024 * 1024  # it holds the prompts and tool texts of all calls
MAX_EVENT_LINE_BYTES = 768 * 1024 + 4096  # an envelope, its salt, digest and hash

_END_MARK = b'{"navi_export_end":'
_TAIL = re.compile(
    rb',"salt":(?:null|"[0-9a-f]{32}"),"digest":"[0-9a-f]{64}","hash":"[0-9a-f]{64}"\}\n'
)


class ExportedSession(Struct, frozen=True, kw_only=True):
    """A session of an export, as far as it is in it.

    Attributes:
        first_seq: of its own events; those before it are its origin's.
        hash: of the event ``last_seq``, hex.
        ancestor: it is there only because others were forked from it, up to where they need it.
    """

    session_id: SessionId
    owner: Owner
    first_seq: int
    last_seq: int
    hash: str
    forked_from: Origin | None = None
    ancestor: bool = False


class Header(Struct, frozen=True, kw_only=True):
    """The first line.

    Attributes:
        public_key: of the signer, Ed25519, hex.
        sessions: in the order in which their events follow; origins before their forks.
        texts: prompts and tool texts that calls refer to, by the SHA-256 of their UTF-8, hex.
    """

    navi_export: Literal[1] = 1
    log_id: str
    navi_version: str
    made_at: str
    public_key: str
    sessions: tuple[ExportedSession, ...]
    texts: dict[str, str]


class End(Struct, frozen=True, kw_only=True):
    """The last line: it signs everything before it.

    Attributes:
        sha256: of all bytes before this line, hex.
        signature: Ed25519 of `signed_text`, hex.
    """

    navi_export_end: Literal[1] = 1
    events: int
    sha256: str
    public_key: str
    signature: str


class ExportedEvent(StoredEvent, frozen=True, kw_only=True):
    """An event of an export: payload, salt, digest and hash, without a position."""


class _Line(Struct, kw_only=True, forbid_unknown_fields=True):
    session_id: SessionId
    seq: int
    id: EventId
    type: str
    v: int
    at: datetime
    turn_id: TurnId | None
    subagent_id: SubagentId | None
    data: Raw
    salt: str | None
    digest: str
    hash: str


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_end = msgspec.json.Decoder(End).decode
_decode_any = msgspec.json.Decoder().decode


def signed_text(sha256: str) -> bytes:
    """What the signature of an export is over."""
    return f"navi_export:1:{sha256}".encode()


def encode_header(header: Header) -> bytes:
    """The first line, with its line break."""
    return msgspec.json.encode(header) + b"\n"


def encode_end(end: End) -> bytes:
    """The last line, with its line break."""
    return msgspec.json.encode(end) + b"\n"


def encode_event(wire: bytes, *, salt: bytes | None, digest: bytes, hash: bytes) -> bytes:  # noqa: A002 - the contract's own name for it
    """The line of an event: its envelope, then salt, digest and hash, and a line break."""
    salted = "null" if salt is None else f'"{salt.hex()}"'
    return b'%b,"salt":%b,"digest":"%b","hash":"%b"}\n' % (
        wire[:-1],
        salted.encode(),
        digest.hex().encode(),
        hash.hex().encode(),
    )


def decode_header(line: bytes) -> Header:
    """The first line, read.

    Raises:
        ValueError: it is none, or of a later format.
    """
    return _decode_header(line)


def is_end(line: bytes) -> bool:
    """Whether a line is meant to be the last one."""
    return line.startswith(_END_MARK)


def decode_end(line: bytes) -> End:
    """The last line, read.

    Raises:
        ValueError: it is not written as `encode_end` writes it.
    """
    end = _decode_end(line)
    if encode_end(end) != line:
        raise ValueError("it is not written as an export writes it")
    return end


def decode_event(line: bytes) -> ExportedEvent:
    """The event of a line, its payload as the bytes that stand there.

    Raises:
        ValueError: it is not written as `encode_event` writes it.
    """
    if _TAIL.search(line) is None:
        raise ValueError("it does not end in salt, digest and hash")
    try:
        read = _decode_line(line)
        _decode_any(read.data)  # a raw value was skipped, not read
        written = _written(read)
    except (RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if written[1] != line:
        raise ValueError("it is not written as an export writes it")
    return written[0]


def _written(read: _Line) -> tuple[ExportedEvent, bytes]:
    """The event of a line, and the line as it has to be."""
    event = ExportedEvent(
        session_id=read.session_id,
        seq=read.seq,
        id=read.id,
        type=read.type,
        v=read.v,
        at=read.at,
        turn_id=read.turn_id,
        subagent_id=read.subagent_id,
        data=bytes(read.data),
        salt=None if read.salt is None else bytes.fromhex(read.salt),
        digest=bytes.fromhex(read.digest),
        hash=bytes.fromhex(read.hash),
    )
    line = encode_event(wire_of(event), salt=event.salt, digest=event.digest, hash=event.hash)
    return event, line
