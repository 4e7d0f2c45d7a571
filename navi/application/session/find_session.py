"""Find the session that somebody names, and refuse what cannot be done to it here."""

from navi.application.session.record import Record, Records
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.ids import AUDIT_STREAM, SessionId, owner_stream
from navi.domain.vocabulary.principal import Principal


async def existing_session(records: Records, session_id: SessionId) -> Record:
    """The session, for reading.

    Raises:
        NotFound: there is none, or it was deleted; or it is the audit log, which is read as such.
    """
    record = await records.open(session_id)
    if not record.session.exists or session_id == AUDIT_STREAM:
        raise NotFound(f"no session {session_id}")
    return record


async def readable_session(records: Records, principal: Principal, session_id: SessionId) -> Record:
    """A session that ``principal`` may read: their own, an admin any.

    Raises:
        NotFound: there is none, or it was deleted, or it is somebody else's: the answer is the same.
    """
    record = await existing_session(records, session_id)
    if record.session.owner != principal.user_id and not principal.is_admin:
        raise NotFound(f"no session {session_id}")
    return record


async def own_session(records: Records, principal: Principal, session_id: SessionId) -> Record:
    """A session that ``principal`` may change: their own.

    Raises:
        NotFound: there is none, or it was deleted, or it is somebody else's: the answer is the same.
    """
    record = records.kept(session_id)  # whose it is never changes; the command looks at the rest
    if record is None or not record.session.exists:
        record = await records.open(session_id)
    if not record.session.exists or record.session.owner != principal.user_id:
        raise NotFound(f"no session {session_id}")
    return record


async def conversation(records: Records, session_id: SessionId) -> Record:
    """The session, for people to change.

    Raises:
        NotFound: there is none, or it was deleted.
        RuleBroken: it is the stream of an owner's memories.
    """
    return _conversation(await existing_session(records, session_id))


async def recent_conversation(records: Records, session_id: SessionId) -> Record:
    """As ``conversation``, and as this process saw it last: for whoever appends next, see `Records.recent`."""
    record = await records.recent(session_id)
    if not record.session.exists or session_id == AUDIT_STREAM:
        return await conversation(records, session_id)
    return _conversation(record)


def _conversation(record: Record) -> Record:
    if record.id == owner_stream(record.session.owner):
        raise RuleBroken(
            f"session {record.id} holds the memories that were written by hand; "
            "they are changed at /memories"
        )
    return record
