"""Signed heads: where the log and its sessions ended at a moment, which makes truncation evident.

One line of JSON a moment. It names the sessions that have grown since the line before, each with its
last ``seq`` and hash, and is tied to that line by its SHA-256. Machines that sign into files of their
own make a chain each; on NATS these stand among one another. The layout stands in ``docs/audit.md``.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.domain.log.subjects import format_position
from navi.domain.log.verdict import Damage
from navi.domain.vocabulary.ids import SessionId

FIRST = "0" * 64  # what the first line of a chain follows
MAX_SESSIONS = 500  # a line; where more have grown, there are more lines
MAX_LINE_BYTES = 256 * 1024

_SIGNED = re.compile(rb'(?P<head>\{.*),"signature":"(?P<signature>[0-9a-f]{128})"\}\n')

Verify = Callable[[str, bytes, bytes], bool]  # public key (hex), signature, message
Sign = Callable[[bytes], bytes]


class SignedHead(Struct, frozen=True, kw_only=True):
    """A line of the heads.

    Attributes:
        positions: the last position of each partition, by its number.
        sessions: last seq and hash (hex) of those that have grown since the line before.
        prev: SHA-256 of the line before of the same chain, without its line break, hex.
        public_key: of the signer, Ed25519, hex.
        restored: an older state of the log was put back, and that is acknowledged: what was signed of
            the sessions that are named, and of positions, counts no more; a session that is gone
            stands at 0.
        anew: the first line of a file, with the lines up to the next moment all sessions of the log:
            lines before it need not be kept.
    """

    navi_head: Literal[1] = 1
    log_id: str
    at: str
    positions: dict[str, int]
    sessions: dict[SessionId, tuple[int, str]]
    prev: str
    public_key: str
    restored: Literal[True] | UnsetType = UNSET
    anew: Literal[True] | UnsetType = UNSET


_decode = msgspec.json.Decoder(SignedHead).decode


def encode_head(head: SignedHead, sign: Sign) -> bytes:
    """The line with its line break; the signature is over all that stands before it in the line."""
    text = msgspec.json.encode(head)[:-1]
    return b'%b,"signature":"%b"}\n' % (text, sign(text).hex().encode())


def link_of(line: bytes) -> str:
    """What the line after this one names as ``prev``."""
    return sha256(line.rstrip(b"\n")).hexdigest()


def decode_head(line: bytes) -> SignedHead:
    """A line, read; the signature is not checked.

    Raises:
        ValueError: it is none.
    """
    try:
        return _decode(line)
    except RecursionError as error:
        raise ValueError(str(error)) from error


class HeadsCheck:
    """Verifies a log against its signed heads.

    Args:
        log_id: of the log; lines of others are passed over.
        trusted: public keys whose signature counts.
    """

    def __init__(
        self, lines: Iterable[bytes], *, log_id: str, verify: Verify, trusted: Collection[str]
    ) -> None:
        self.problems: list[Damage] = []
        self.lines = 0
        self.restored: list[SignedHead] = []  # acknowledgements that an older state was put back
        self._marks: dict[SessionId, deque[tuple[int, str, str]]] = {}
        self._positions: dict[int, int] = {}
        self._links: dict[str, str] = {}  # of each signer's last line, by its public key
        self._seen: dict[SessionId, int] = {}  # the last seq that is as it was signed
        self._read(lines, log_id, verify, trusted)

    def see(self, session_id: SessionId, seq: int, link: bytes) -> Damage | None:
        """Take the next event of a session; what is wrong, where it was signed with another hash."""
        marks = self._marks.get(session_id)
        if not marks or seq < marks[0][0]:
            return None
        signed, hash_, at = marks.popleft()
        before = self._seen.get(session_id, 0)
        self._seen[session_id] = signed
        if seq == signed and link.hex() == hash_:
            return None
        marks.clear()  # whatever follows has other hashes, too
        reason = f"seq {before + 1} to {signed} are not what was signed at {at}"
        return Damage(session_id=session_id, seq=before + 1, reason=reason)

    def marked(self) -> dict[SessionId, frozenset[int]]:
        """The seqs of each session whose hashes were signed; `see` needs no others but the last."""
        return {
            session_id: frozenset(seq for seq, _, _ in marks)
            for session_id, marks in self._marks.items()
        }

    def missing(
        self, ends: Mapping[SessionId, int], *, only: SessionId | None = None
    ) -> Iterator[Damage]:
        """The sessions that end before they were signed.

        Args:
            ends: the last seq of each session that is there.
            only: look at this session alone.
        """
        for session_id, marks in self._marks.items():
            if not marks or only not in (None, session_id):
                continue
            signed, _, at = marks[-1]
            end = ends.get(session_id, 0)
            reason = f"cut off: the session went up to seq {signed} at {at}"
            if end == 0:
                reason = f"removed: the session went up to seq {signed} at {at}"
            yield Damage(session_id=session_id, seq=end + 1, reason=reason)

    def cut_off(self, heads: Mapping[int, int]) -> Iterator[Damage]:
        """The partitions that end before they were signed; ``heads`` are their last positions now."""
        for partition, signed in self._positions.items():
            end = heads.get(partition, 0)
            if end < signed:
                ends, was = format_position(partition, end), format_position(partition, signed)
                reason = f"the log ends at position {ends} and was signed up to {was}"
                yield Damage(session_id=None, seq=None, reason=reason)

    @property
    def positions(self) -> Mapping[str, int]:
        """The last signed position of each partition, by its number."""
        return {str(number): position for number, position in self._positions.items()}

    def ends(self) -> Mapping[SessionId, tuple[int, str]]:
        """Last signed seq and hash (hex) of each session."""
        return {session_id: marks[-1][:2] for session_id, marks in self._marks.items() if marks}

    def knows(self, session_id: SessionId) -> bool:
        """Whether a session was ever signed."""
        return session_id in self._marks

    def _read(
        self, lines: Iterable[bytes], log_id: str, verify: Verify, trusted: Collection[str]
    ) -> None:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                if len(line) > MAX_LINE_BYTES:
                    self._report(number, "is too long")
                return  # it is just being written, or a crash cut it off: nothing hangs on it
            try:
                head = decode_head(line)
            except ValueError as error:
                self._report(number, f"cannot be read: {error}")
                continue
            if head.log_id != log_id:
                continue
            signed = _SIGNED.fullmatch(line)
            if head.public_key not in trusted:
                self._report(
                    number, f"is signed by a key that is not known: {head.public_key[:64]}"
                )
            elif signed is None or not verify(
                head.public_key, bytes.fromhex(signed["signature"].decode()), signed["head"]
            ):
                self._report(number, "has a signature that is not the signer's")
            elif not self._follows(head):
                self._report(number, "does not follow the line before it")
            self._links[head.public_key] = link_of(line)
            self._take(head)

    def _follows(self, head: SignedHead) -> bool:
        """Whether a line goes on where a chain ends, or begins its signer's."""
        # Whoever replaces the key of a data directory goes on with the chain of the one before.
        if head.prev in self._links.values():
            return True
        begins = head.prev == FIRST or head.anew is True
        return begins and head.public_key not in self._links

    def _take(self, head: SignedHead) -> None:
        self.lines += 1
        if head.restored is True:
            self.restored.append(head)
            self._positions.clear()
            for session_id in head.sessions:
                self._marks.pop(session_id, None)
        for partition, position in head.positions.items():
            if partition.isdecimal():
                # A machine that has just begun to sign names the log up to where it has read.
                before = self._positions.get(int(partition), 0)
                self._positions[int(partition)] = max(before, position)
        for session_id, (seq, hash_) in head.sessions.items():
            marks = self._marks.setdefault(session_id, deque())
            # Lines that begin anew say again what was said; what is signed at a seq covers all before it.
            is_said = bool(marks) and (seq < marks[-1][0] or marks[-1][:2] == (seq, hash_))
            if seq > 0 and not is_said:
                marks.append((seq, hash_, head.at))

    def _report(self, number: int, reason: str) -> None:
        text = f"line {number} of the signed heads {reason}"
        self.problems.append(Damage(session_id=None, seq=None, reason=text))
