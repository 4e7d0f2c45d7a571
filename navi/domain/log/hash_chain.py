"""The hash chain of a session's events, which makes changes of history evident.

``digest`` is sha256(salt + data): a payload can be erased with its salt, and nothing can be guessed
back, while the chain still verifies. ``hash`` is sha256(previous hash + header + digest), the header
being the netstrings (``length:bytes,``, the length in bytes) of session id, seq, id, type, v, at as it
stands in the envelope, turn id and subagent id, an absent one being empty. The log partition is not in
it, so that a session can be imported anywhere. The first event follows 32 zero bytes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
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
    return Links().next(previous, session_id, seq, id, type, v, at, turn_id, subagent_id, digest)


class Links:
    """``hash_of`` for events that come after one another: what they have in common is written once."""

    __slots__ = ("_at", "_moment", "_place", "_session", "_session_id", "_subagent_id", "_turn_id")

    def __init__(self) -> None:
        self._session_id: str = ""
        self._turn_id: str = ""
        self._subagent_id: str = ""
        self._at: datetime | None = None
        self._session = self._moment = ""
        self._place = "0:,0:,"

    def next(
        self,
        previous: bytes,
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
        """The link of the next event to the one before it."""
        if session_id != self._session_id:
            self._session_id, self._session = session_id, f"{len(session_id)}:{session_id},"
        if at is not self._at:
            moment = format_at(at)
            self._at, self._moment = at, f"{len(moment)}:{moment},"
        turn, subagent = turn_id or "", subagent_id or ""
        if turn != self._turn_id or subagent != self._subagent_id:
            self._turn_id, self._subagent_id = turn, subagent
            self._place = f"{len(turn)}:{turn},{len(subagent)}:{subagent},"
        number = str(seq)
        header = (
            f"{self._session}{len(number)}:{number},{len(id)}:{id},{_kind(type, v)}"
            f"{self._moment}{self._place}"
        )
        return sha256(previous + header.encode() + digest).digest()


@lru_cache(maxsize=256)
def _kind(type: str, v: int) -> str:  # noqa: A002 - the contract's own name for it
    """Type and version in a header."""
    version = str(v)
    return f"{len(type.encode())}:{type},{len(version)}:{version},"


def verify_chain(
    rows: Iterable[Link], *, after: int = 0, previous: bytes = GENESIS
) -> Iterator[tuple[int, str]]:
    """What is wrong with a session's events, as ``(seq, reason)``; nothing where all holds.

    Args:
        rows: consecutive events of one session, in order; those of a fork's origin keep its id.
        after: seq of the event before the first of them, so that a session can be checked in pages.
        previous: hash of that event.
    """
    links = Links()
    for row in rows:
        seq, digest, hash_, salt = row.seq, row.digest, row.hash, row.salt
        if seq > after + 1:
            yield after + 1, f"seq {after + 1} is missing"
        elif seq <= after:
            yield seq, f"it stands behind seq {after}"
        elif hash_ != links.next(
            previous,
            row.session_id,
            seq,
            row.id,
            row.type,
            row.v,
            row.at,
            row.turn_id,
            row.subagent_id,
            digest,
        ):
            yield seq, "the hash does not follow from the event before and the header"
        if salt is None:
            # Nothing ties such data to what was written, so they may hold no words.
            if not is_without_words(row.type, row.data):
                yield seq, "the data are not what an erasure leaves"
        elif digest_of(salt, row.data) != digest and not _is_pruned(row):
            yield seq, "the data is not what was written"
        after, previous = seq, hash_


def _is_pruned(row: Link) -> bool:
    """Whether the text of a delta was taken away: its digest is then of what stood there."""
    return row.type in DELTA_TYPES and is_without_words(row.type, row.data)
