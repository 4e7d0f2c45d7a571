"""Where the files of a session are: a directory called by its id."""

from pathlib import Path

from navi.domain.vocabulary.ids import SessionId, is_uuid


def session_directory(below: Path, session_id: SessionId) -> Path:
    """The session's directory below another; it may not be there yet.

    Raises:
        ValueError: it is no session id, and could lead anywhere.
    """
    if not is_uuid(session_id):
        raise ValueError(f"{session_id!r} is no session id")
    return below / session_id
