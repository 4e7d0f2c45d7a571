"""Wait for the deletion of a session, on whichever node it happens."""

import asyncio
from contextlib import aclosing

from navi.application.session.record import Records
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import SessionDeleted
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import EventLog

PAUSE = 1.0  # seconds, while Postgres is away


async def await_deletion(records: Records, event_log: EventLog, session_id: SessionId) -> None:
    """Ends once the session is deleted; at once where it is, or where there is none."""
    while True:
        try:
            record = await records.open(session_id)
            if not record.session.exists:
                return
            async with aclosing(event_log.watch(session_id, after=record.seq)) as rows:
                async for batch in rows:
                    if any(row.type == SessionDeleted.TYPE for row in batch):
                        return
        except LogUnavailable:
            await asyncio.sleep(PAUSE)
