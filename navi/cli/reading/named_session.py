"""The session and the seqs that commands are given as arguments."""

import click

from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.ids import SessionId, parse_session_id
from navi.ports.event_log import SessionHistory

seq_type = click.IntRange(min=0, max=2**53)


async def find_session(log: SessionHistory, session: str) -> tuple[SessionId, int]:
    """Find the session that an argument names, deleted ones too, and the seq of its last event.

    Raises:
        NotFound: there is none.
    """
    session_id = parse_session_id(session)
    head = await log.head(session_id)
    if head == 0:
        raise NotFound(f"no session {session_id}")
    return session_id, head
