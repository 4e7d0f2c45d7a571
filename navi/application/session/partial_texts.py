"""Read the partial text of open model calls from the log: folds skip deltas."""

from contextlib import aclosing

from navi.domain.events import TextDelta
from navi.domain.ids import CallId, SessionId
from navi.domain.turn import OpenModelCall, Turn, open_operations
from navi.ports.event_log import EventLog


async def partial_texts(
    event_log: EventLog, session_id: SessionId, turn: Turn
) -> dict[CallId, str]:
    """The partial text of each open call of the turn, by call.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    opened = {o.call.id: o.call.seq for o in open_operations(turn) if isinstance(o, OpenModelCall)}
    texts: dict[CallId, list[str]] = {call_id: [] for call_id in opened}
    if opened:
        batches = event_log.read(session_id, after=min(opened.values()))
        async with aclosing(batches):
            async for rows in batches:
                for row in rows:
                    event = row.envelope.event
                    if isinstance(event, TextDelta) and event.call_id in texts:
                        texts[event.call_id].append(event.text)
    return {call_id: "".join(pieces) for call_id, pieces in texts.items()}
