"""Export sessions as signed JSON Lines: a snapshot up to the heads of one moment."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256

from msgspec import UNSET

from navi.domain.log.export import (
    MAX_HEADER_BYTES,
    End,
    ExportedSession,
    Header,
    encode_end,
    encode_event,
    encode_header,
    signed_text,
)
from navi.domain.vocabulary.errors import ExportTooLarge, LogDamaged, NotFound
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.events import ImageShown, ModelCalled, Origin, ToolAllowed
from navi.domain.vocabulary.ids import SessionId
from navi.ports.clock import Clock
from navi.ports.event_log import FACTS
from navi.ports.log_admin import LogRegistry, SessionHead
from navi.ports.signing import Signer
from navi.ports.text_store import TextStore

Heads = Mapping[SessionId, SessionHead]


class ExportSessions:
    """Exports sessions of one log, signed with one key."""

    def __init__(
        self,
        event_log: LogRegistry,
        texts: TextStore,
        signer: Signer,
        clock: Clock,
        *,
        log_id: str,
        version: str,
    ) -> None:
        self._log = event_log
        self._texts = texts
        self._signer = signer
        self._clock = clock
        self._log_id = log_id
        self._version = version

    async def export(self, session_ids: Sequence[SessionId] | None) -> AsyncGenerator[bytes, None]:
        """Export some sessions, or all, in chunks of bytes.

        What they were forked from comes with them, as far as they need it.

        Raises:
            NotFound: there is no such session; nothing was given before.
            ExportTooLarge: the kept texts do not fit into the first line; nothing was given before.
            LogDamaged: an event is missing.
        """
        sessions = await self._manifest(session_ids)
        header = Header(
            log_id=self._log_id,
            navi_version=self._version,
            made_at=format_at(self._clock.now()),
            public_key=self._signer.public_key,
            sessions=sessions,
            texts=await self._texts_of(sessions),
        )
        first = encode_header(header)
        _check_size(len(first))
        digest = sha256(first)
        yield first
        events = 0
        for session in sessions:
            async with aclosing(self._lines(session)) as pieces:
                async for piece, count in pieces:
                    digest.update(piece)
                    events += count
                    yield piece
        name = digest.hexdigest()
        yield encode_end(
            End(
                events=events,
                sha256=name,
                public_key=self._signer.public_key,
                signature=self._signer.sign(signed_text(name)).hex(),
            )
        )

    async def _manifest(
        self, session_ids: Sequence[SessionId] | None
    ) -> tuple[ExportedSession, ...]:
        """The sessions and their ancestors, origins first."""
        heads = {head.session_id: head for head in await self._log.sessions(session_ids)}
        for session_id in session_ids or ():
            if session_id not in heads:
                raise NotFound(f"no session {session_id}")
        if not heads:
            raise NotFound("there is no session yet")
        wanted = frozenset(heads)
        await self._add_ancestors(heads)
        origins = {session_id: _origin_of(head, heads) for session_id, head in heads.items()}
        needed: dict[SessionId, int] = {session_id: heads[session_id].seq for session_id in wanted}
        order: dict[SessionId, None] = {}
        for session_id in wanted:
            _need(session_id, origins, needed)
        for session_id in sorted(needed):
            _put_in_order(session_id, origins, order)
        return tuple(
            [
                await self._entry(heads[sid], origins[sid], needed[sid], sid in wanted)
                for sid in order
            ]
        )

    async def _add_ancestors(self, heads: dict[SessionId, SessionHead]) -> None:
        missing = _missing(heads)
        while missing:
            found = await self._log.sessions(missing)
            heads.update({head.session_id: head for head in found})
            if len(found) < len(missing):
                raise LogDamaged("what a session was forked from is not in the log")
            missing = _missing(heads)

    async def _entry(
        self, head: SessionHead, origin: Origin | None, last_seq: int, is_wanted: bool
    ) -> ExportedSession:
        hash_ = head.hash
        if last_seq < head.seq:
            hash_ = await self._hash_at(head.session_id, last_seq)
        return ExportedSession(
            session_id=head.session_id,
            owner=head.owner,
            first_seq=1 if origin is None else origin.seq + 1,
            last_seq=last_seq,
            hash=hash_.hex(),
            forked_from=origin,
            ancestor=not is_wanted,
        )

    async def _hash_at(self, session_id: SessionId, seq: int) -> bytes:
        async with aclosing(self._log.read(session_id, after=seq - 1, until=seq)) as batches:
            async for batch in batches:
                return batch[0].hash
        raise LogDamaged(f"session {session_id} has no event {seq}")

    async def _texts_of(self, sessions: Iterable[ExportedSession]) -> dict[str, str]:
        """The kept texts that the calls refer to."""
        names: set[str] = set()
        for session in sessions:
            reading = self._log.read(
                session.session_id,
                after=session.first_seq - 1,
                until=session.last_seq,
                types=FACTS,
            )
            async with aclosing(reading) as batches:
                async for batch in batches:
                    for row in batch:
                        if row.type in NAMES_TEXTS:
                            names.update(texts_named(row.envelope.event))
        texts: dict[str, str] = {}
        size = 0
        for name in sorted(names):
            text = await self._texts.get(name)
            if text is not None:
                size += len(text.encode())
                _check_size(size)  # already here: all of them may be more than the memory
                texts[name] = text
        return texts

    async def _lines(self, session: ExportedSession) -> AsyncGenerator[tuple[bytes, int], None]:
        reading = self._log.read(
            session.session_id, after=session.first_seq - 1, until=session.last_seq
        )
        async with aclosing(reading) as batches:
            async for batch in batches:
                lines = [
                    encode_event(row.wire, salt=row.salt, digest=row.digest, hash=row.hash)
                    for row in batch
                ]
                yield b"".join(lines), len(lines)


# Types of events that refer to texts.
NAMES_TEXTS = (ModelCalled.TYPE, ImageShown.TYPE, ToolAllowed.TYPE)


def texts_named(event: object) -> Iterable[str]:
    """The hashes of the texts that an event refers to."""
    if isinstance(event, ImageShown):
        return [event.base64_sha256] if event.base64_sha256 is not UNSET else []
    if isinstance(event, ToolAllowed):
        return [event.description_sha256]
    if not isinstance(event, ModelCalled):
        return ()
    names = (
        *(event.system_sha256, event.tools_sha256, event.tail_sha256),
        *(event.profile_sha256, event.settings_sha256),
    )
    return [name for name in names if name is not None and name is not UNSET]


def _check_size(header_bytes: int) -> None:
    if header_bytes > MAX_HEADER_BYTES:  # what no import and no `navi verify` would take
        raise ExportTooLarge(
            "the prompts, tool texts and pictures that these sessions name are more than the "
            f"{MAX_HEADER_BYTES // 1024**2} MiB that an export may hold of them: export fewer sessions "
            "at a time"
        )


def _missing(heads: Heads) -> list[SessionId]:
    origins = (head.forked_from for head in heads.values())
    return sorted({o.session_id for o in origins if o is not None and o.session_id not in heads})


def _origin_of(head: SessionHead, heads: Heads) -> Origin | None:
    """The stream that holds the event a session was forked from; maybe an ancestor of its origin."""
    origin = head.forked_from
    while origin is not None:
        parent = heads[origin.session_id].forked_from
        if parent is None or origin.seq > parent.seq:
            return origin
        origin = Origin(session_id=parent.session_id, seq=origin.seq)
    return None


def _need(
    session_id: SessionId,
    origins: Mapping[SessionId, Origin | None],
    needed: dict[SessionId, int],
) -> None:
    """Note up to which event each ancestor of a session is needed."""
    origin = origins[session_id]
    while origin is not None:
        needed[origin.session_id] = max(needed.get(origin.session_id, 0), origin.seq)
        origin = origins[origin.session_id]


def _put_in_order(
    session_id: SessionId,
    origins: Mapping[SessionId, Origin | None],
    order: dict[SessionId, None],
) -> None:
    """Sort a session behind all its ancestors."""
    line: list[SessionId] = []
    here: SessionId | None = session_id
    while here is not None and here not in order:
        line.append(here)
        origin = origins[here]
        here = None if origin is None else origin.session_id
    order.update(dict.fromkeys(reversed(line)))
