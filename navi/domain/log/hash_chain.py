"""The hash chain of a session's events, which makes changes of history evident.

``digest`` is sha256(salt + data): a payload can be erased with its salt, and nothing can be guessed
back, while the chain still verifies. ``hash`` is sha256(previous hash + header + digest), the header
being the netstrings (``length:bytes,``, the length in bytes) of session id, seq, id, type, v, at as it
stands in the envelope, turn id and subagent id, an absent one being empty. The log partition is not in
it, so that a session can be imported anywhere. The first event follows 32 zero bytes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Protocol

from navi.domain.log.erasure import is_without_words
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.events import DELTA_TYPES

GENESIS = bytes(32)  # what the first event of a session follows
SALT_BYTES = 16


class Link(Protocol):
    """A stored event, as far as the chain is concerned."""

    @property
    def session_id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def v(self) -> int: ...
    @property
    def at(self) -> datetime: ...
    @property
    def turn_id(self) -> str | None: ...
    @property
    def subagent_id(self) -> str | None: ...
    @property
    def data(self) -> bytes: ...
    @property
    def salt(self) -> bytes | None: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def hash(self) -> bytes: ...


def digest_of(salt: bytes, data: bytes) -> bytes:
    """What stands for a payload in the chain, 32 bytes."""
    return sha256(salt + data).digest()


def hash_of(
    previous: bytes,
    *,
    session_id: str,
    seq: int,
    id: str,  # noqa: A002 - the contract's own name for it
    type: str,  # noqa: A002 - likewise
    v: int,
    at: datetime,
    turn_id: str | None,
    subagent_id: str | None,
    digest: bytes,
) -> bytes:
    """The link of an event to the one before it, 32 bytes."""
    end = header_end(at, turn_id, subagent_id)
    return link(previous, session_id, seq, id, type, v, end, digest)


def header_end(at: datetime, turn_id: str | None, subagent_id: str | None) -> str:
    """The end of a header, which events that are appended together have in common."""
    moment, turn, subagent = format_at(at), turn_id or "", subagent_id or ""
    return f"{len(moment)}:{moment},{len(turn)}:{turn},{len(subagent)}:{subagent},"


def link(
    previous: bytes,
    session_id: str,
    seq: int,
    id: str,  # noqa: A002 - the contract's own name for it
    type: str,  # noqa: A002 - likewise
    v: int,
    end: str,
    digest: bytes,
) -> bytes:
    """As ``hash_of``, with the end of the header as ``header_end`` gives it."""
    number, version = str(seq), str(v)
    width = len(type) if type.isascii() else len(type.encode())
    header = (
        f"{len(session_id)}:{session_id},{len(number)}:{number},{len(id)}:{id},{width}:{type},"
        f"{len(version)}:{version},{end}"
    )
    return sha256(b"%b%b%b" % (previous, header.encode(), digest)).digest()


def verify_chain(
    rows: Iterable[Link], *, after: int = 0, previous: bytes = GENESIS
) -> Iterator[tuple[int, str]]:
    """What is wrong with a session's events, as ``(seq, reason)``; nothing where all holds.

    Args:
        rows: consecutive events of one session, in order; those of a fork's origin keep its id.
        after: seq of the event before the first of them, so that a session can be checked in pages.
        previous: hash of that event.
    """
    for row in rows:
        if row.seq > after + 1:
            yield after + 1, f"seq {after + 1} is missing"
        elif row.seq <= after:
            yield row.seq, f"it stands behind seq {after}"
        elif row.hash != hash_of(
            previous,
            session_id=row.session_id,
            seq=row.seq,
            id=row.id,
            type=row.type,
            v=row.v,
            at=row.at,
            turn_id=row.turn_id,
            subagent_id=row.subagent_id,
            digest=row.digest,
        ):
            yield row.seq, "the hash does not follow from the event before and the header"
        if row.salt is None:
            # Nothing ties such data to what was written, so they may hold no words.
            if not is_without_words(row.type, row.data):
                yield row.seq, "the data are not what an erasure leaves"
        elif digest_of(row.salt, row.data) != row.digest and not _is_pruned(row):
            yield row.seq, "the data is not what was written"
        after, previous = row.seq, row.hash


def _is_pruned(row: Link) -> bool:
    """Whether the text of a delta was taken away: its digest is then of what stood there."""
    return row.type in DELTA_TYPES and is_without_words(row.type, row.data)
