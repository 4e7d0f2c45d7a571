"""Load recordings from the log or from an export."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing

from msgspec import Struct

from navi.application.audit.export_sessions import texts_named
from navi.domain.log.export import (
    ExportedEvent,
    ExportedSession,
    Header,
    decode_event,
    decode_header,
    is_end,
)
from navi.domain.log.stored_event import StoredEvent, envelope_of
from navi.domain.vocabulary.errors import BadInput, Erased, NotFound
from navi.domain.vocabulary.events import DELTA_TYPES, Envelope
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import EventLog, Recorded
from navi.ports.text_store import TextStore


class LoadedRecording(Struct, frozen=True):
    """A recording and the kept texts that its calls refer to."""

    envelopes: tuple[Envelope, ...]
    texts: Mapping[str, str]


async def load_recording(
    event_log: EventLog, texts: TextStore, session_id: SessionId, *, until: int | None
) -> LoadedRecording:
    """Load a session from the log.

    Args:
        until: how far it is to be run; None for all of it.

    Raises:
        NotFound: there is no such session.
        BadInput: ``until`` is beyond its end.
        Erased: words that are needed were erased.
        LogDamaged: an event cannot be read.
        LogUnavailable: Postgres does not answer.
    """
    head = await event_log.head(session_id)
    if head == 0:
        raise NotFound(f"no session {session_id}")
    if until is not None and not 0 <= until <= head:
        raise BadInput("--until", f"the session has events 1 to {head}")
    rows: list[Recorded] = []
    async with aclosing(event_log.read(session_id, until=head)) as batches:
        async for batch in batches:
            rows += batch
    _require_words(rows, until)
    envelopes = tuple(row.envelope for row in rows)
    names = {name for envelope in envelopes for name in texts_named(envelope.event)}
    kept = {name: await texts.get(name) for name in sorted(names)}
    found = {name: text for name, text in kept.items() if text is not None}
    return LoadedRecording(envelopes, found)


def load_export(lines: Iterable[bytes]) -> LoadedRecording:
    """Load the session of an export, with its ancestors.

    Raises:
        BadInput: it is no such export.
        Erased: words that are needed were erased.
        LogDamaged: an event cannot be read.
    """
    reading = iter(lines)
    try:
        header = decode_header(next(reading, b""))
        events = [decode_event(line) for line in reading if not is_end(line)]
    except ValueError as error:
        raise BadInput("export", str(error)) from error
    wanted = [session for session in header.sessions if not session.ancestor]
    if len(wanted) != 1:
        raise BadInput("export", f"it holds {len(wanted)} sessions, not one")
    rows = _line_of(header, wanted[0], events)
    _require_words(rows, None)
    return LoadedRecording(tuple(envelope_of(row) for row in rows), header.texts)


def _line_of(
    header: Header, session: ExportedSession, events: Iterable[ExportedEvent]
) -> list[ExportedEvent]:
    """The events of a session, those of its ancestors first."""
    by_id = {one.session_id: one for one in header.sessions}
    own = [e for e in events if e.session_id == session.session_id]
    origin = session.forked_from
    if origin is None:
        return own
    before = _line_of(header, by_id[origin.session_id], events)
    return [*before[: origin.seq], *own]


def _require_words(rows: Iterable[StoredEvent], until: int | None) -> None:
    for row in rows:
        lost = row.salt is None and row.type not in DELTA_TYPES
        if lost and (until is None or row.seq <= until):
            raise Erased(
                f"what event {row.seq} said is erased: the session can be run again up to {row.seq - 1}"
            )
