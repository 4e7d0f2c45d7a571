"""Verify an export: every line, every chain, the signature.

Nothing is taken from the file that was not checked, and nothing in it can make the check raise.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from navi.domain.log.export import (
    MAX_EVENT_LINE_BYTES,
    MAX_HEADER_BYTES,
    ExportedEvent,
    ExportedSession,
    Header,
    decode_end,
    decode_event,
    decode_header,
    is_end,
    signed_text,
)
from navi.domain.log.hash_chain import GENESIS, verify_chain
from navi.domain.log.stored_event import wire_of
from navi.domain.log.verdict import MAX_PROBLEMS, Damage, Verdict, verdict_of
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.event_codec import MAX_ENVELOPE_BYTES, decode_data
from navi.domain.vocabulary.events import Origin, SessionCreated
from navi.domain.vocabulary.ids import SessionId, is_uuid

Verify = Callable[[str, bytes, bytes], bool]  # public key (hex), signature, message

MAX_SEQ = 2**53
MAX_VERSION = 32_767

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,200}")


class ExportCheck:
    """Verifies the lines of an export in order, and collects what is wrong.

    Args:
        verify: whether a signature of a message was made with the key that belongs to a public one.
    """

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._problems: list[Damage] = []
        self._bytes = sha256()
        self._lines = 0
        self._ended = False
        self._nth = 0  # of the session whose events come now
        self._seq = 0
        self._hash = GENESIS
        self._bases: dict[tuple[SessionId, int], bytes | None] = {}
        self.header: Header | None = None
        self.events = 0

    def read(self, lines: Iterable[bytes]) -> Iterator[ExportedEvent]:
        """Check the lines, each with its line break; gives the events of those that are one."""
        for line in lines:
            if len(self._problems) >= MAX_PROBLEMS:
                return
            event = self._take(line)
            if event is not None:
                yield event
        self._close()

    @property
    def verdict(self) -> Verdict:
        """What was found so far."""
        sessions = () if self.header is None else self.header.sessions
        return verdict_of(sessions=len(sessions), events=self.events, problems=self._problems)

    @property
    def is_sound(self) -> bool:
        """Whether nothing wrong was found so far."""
        return not self._problems

    def found(self, problem: Damage | None) -> None:
        """Add what another check found wrong with an event, if anything."""
        if problem is not None:
            self._problems.append(problem)

    @property
    def digest(self) -> bytes:
        """The SHA-256 of what was read."""
        return self._bytes.digest()

    def hash_at(self, origin: Origin) -> bytes:
        """The hash of the event that a session of a sound export was forked from."""
        found = self._bases[origin.session_id, origin.seq]
        assert found is not None  # noqa: S101 - else there is a problem
        return found

    # --- lines ---

    def _take(self, line: bytes) -> ExportedEvent | None:
        self._lines += 1
        if self._lines == 1:
            self._take_header(line)
        elif self._ended:
            self._report(f"line {self._lines} stands behind the signature")
        elif is_end(line):
            self._take_end(line)
        elif self.header is not None:
            self._bytes.update(line)
            return self._take_event(line)
        self._bytes.update(line)
        return None

    def _take_header(self, line: bytes) -> None:
        try:
            header = decode_header(line)
        except (ValueError, RecursionError) as error:
            self._report(f"the first line is not that of an export: {error}")
            return
        if len(line) > MAX_HEADER_BYTES or not line.endswith(b"\n"):
            self._report("the first line is cut off or too long")
        for reason in _faults_of(header):
            self._report(reason)
        if self._problems:
            return
        self.header = header
        for session in header.sessions:
            if (origin := session.forked_from) is not None:
                self._bases[origin.session_id, origin.seq] = None
        self._begin(0)

    def _take_end(self, line: bytes) -> None:
        self._ended = True
        try:
            end = decode_end(line)
        except (ValueError, RecursionError) as error:
            self._report(f"the last line is not that of an export: {error}")
            return
        self._finish_sessions()
        if self.header is None:
            return
        if end.events != self.events:
            self._report(f"there are {self.events} events, {end.events} were signed")
        if end.public_key != self.header.public_key:
            self._report("the first and the last line name different signers")
        if end.sha256 != self._bytes.hexdigest():
            self._report("the bytes are not those that were signed")
        elif not self._verify(end.public_key, _bytes_of(end.signature), signed_text(end.sha256)):
            self._report("the signature is not the signer's")

    def _take_event(self, line: bytes) -> ExportedEvent | None:
        here = self._session
        if here is not None and self._seq >= here.last_seq:
            self._finish_session(here)
            here = self._session
        self.events += 1
        if len(line) > MAX_EVENT_LINE_BYTES or not line.endswith(b"\n"):
            self._report_line(here, "is cut off or too long")
            return None
        try:
            event = decode_event(line)
        except ValueError as error:
            self._report_line(here, f"cannot be read: {error}")
            return None
        while here is not None and event.session_id != here.session_id:
            if event.session_id not in self._to_come():
                self._report_line(here, f"is of another session, {event.session_id[:36]!r}")
                return None
            self._finish_session(here)
            here = self._session
        if here is None:
            self._report(f"line {self._lines} belongs to none of the sessions")
            return None
        self._follow(here, event)
        return event

    def _follow(self, session: ExportedSession, event: ExportedEvent) -> None:
        for seq, reason in verify_chain((event,), after=self._seq, previous=self._hash):
            self._report(reason, session, seq)
        for reason in _faults_of_event(event, session):
            self._report(reason, session, event.seq)
        if event.seq > session.last_seq:
            self._report(f"the session ends at seq {session.last_seq}", session, event.seq)
        self._seq, self._hash = event.seq, event.hash
        if (session.session_id, event.seq) in self._bases:
            self._bases[session.session_id, event.seq] = event.hash

    # --- sessions ---

    @property
    def _session(self) -> ExportedSession | None:
        if self.header is None or self._nth >= len(self.header.sessions):
            return None
        return self.header.sessions[self._nth]

    def _to_come(self) -> set[SessionId]:
        sessions = () if self.header is None else self.header.sessions[self._nth + 1 :]
        return {session.session_id for session in sessions}

    def _begin(self, nth: int) -> None:
        self._nth, self._seq, self._hash = nth, 0, GENESIS
        session = self._session
        if session is None or session.forked_from is None:
            return
        origin = session.forked_from
        base = self._bases[origin.session_id, origin.seq]
        self._seq = origin.seq
        if base is None:
            self._report("what it was forked from is missing", session, session.first_seq)
        else:
            self._hash = base

    def _finish_session(self, session: ExportedSession) -> None:
        if self._seq < session.last_seq:
            reason = f"seq {self._seq + 1} to {session.last_seq} are missing"
            self._report(reason, session, self._seq + 1)
        elif self._hash.hex() != session.hash:
            reason = "the hash is not the head that the first line names"
            self._report(reason, session, self._seq)
        self._begin(self._nth + 1)

    def _finish_sessions(self) -> None:
        while (session := self._session) is not None:
            self._finish_session(session)

    def _close(self) -> None:
        if self._lines == 0:
            self._report("the file is empty")
        elif not self._ended:
            self._finish_sessions()
            self._report("the end is missing: there is no signature")

    # --- problems ---

    def _report_line(self, session: ExportedSession | None, reason: str) -> None:
        seq = None if session is None else self._seq + 1
        self._report(f"line {self._lines} {reason}", session, seq)

    def _report(
        self, reason: str, session: ExportedSession | None = None, seq: int | None = None
    ) -> None:
        session_id = None if session is None else session.session_id
        self._problems.append(Damage(session_id=session_id, seq=seq, reason=reason))


def check_export(lines: Iterable[bytes], verify: Verify) -> ExportCheck:
    """Verify a whole export.

    Args:
        lines: each with its line break.
        verify: see `ExportCheck`.
    """
    check = ExportCheck(verify)
    for _ in check.read(lines):
        pass
    return check


def _faults_of(header: Header) -> Iterator[str]:
    """What cannot be right in a first line."""
    if not header.sessions:
        yield "the first line names no session"
    seen: dict[SessionId, ExportedSession] = {}
    for session in header.sessions:
        name = session.session_id[:36]
        base = 0
        if not is_uuid(session.session_id):
            yield f"the first line: {name!r} is not the id of a session"
        if session.session_id in seen:
            yield f"the first line names session {name!r} twice"
        if _TOKEN.fullmatch(session.owner) is None:
            yield f"the first line: session {name!r} has an owner that cannot be"
        if (origin := session.forked_from) is not None:
            base = origin.seq
            ancestor = seen.get(origin.session_id)
            if ancestor is None or not ancestor.first_seq <= base <= ancestor.last_seq:
                yield f"the first line: what session {name!r} was forked from is not in the export"
        if session.first_seq != base + 1 or not session.first_seq <= session.last_seq <= MAX_SEQ:
            yield f"the first line: session {name!r} cannot go from {session.first_seq} to {session.last_seq}"
        seen[session.session_id] = session
    for name, text in header.texts.items():
        if sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != name:
            yield f"the text {name[:64]!r} has another hash"


def _faults_of_event(event: ExportedEvent, session: ExportedSession) -> Iterator[str]:
    """What a log would not have stored, whoever signed it."""
    if not is_uuid(event.id) or (event.turn_id is not None and not is_uuid(event.turn_id)):
        yield "an id is not a UUID in lower case"
    if event.subagent_id is not None and _TOKEN.fullmatch(event.subagent_id) is None:
        yield "the subagent's id cannot be one"
    if not 1 <= event.v <= MAX_VERSION or _TOKEN.fullmatch(event.type) is None:
        yield "the type or its version cannot be one"
    if len(wire_of(event)) > MAX_ENVELOPE_BYTES:
        yield f"the envelope has more than {MAX_ENVELOPE_BYTES} bytes"
    try:
        read = decode_data(event.type, event.v, event.data)
    except LogDamaged as error:
        yield str(error)
        return
    if event.seq == session.first_seq and isinstance(read, SessionCreated):
        if event.salt is not None and read.owner != session.owner:
            yield "the owner is not the one that the first line names"
        # The first line names the stream that holds the base: of a fork of a fork it may be its origin's.
        base = 0 if read.forked_from is None else read.forked_from.seq
        if base != session.first_seq - 1:
            yield "it was not forked from what the first line names"


def _bytes_of(text: str) -> bytes:
    """The bytes of lower-case hex; none for what is written in any other way: that was not signed."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return b""
    return found if found.hex() == text else b""
