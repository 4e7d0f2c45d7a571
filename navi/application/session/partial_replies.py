"""Read from the log what came of the open model calls of a turn: folds skip deltas."""

from contextlib import aclosing

from navi.domain.session.commands import PartialReply
from navi.domain.session.turn import OpenModelCall, Turn, open_operations
from navi.domain.vocabulary.events import TextDelta, ThinkingDelta
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.ports.event_log import EventLog


async def partial_replies(
    event_log: EventLog, session_id: SessionId, turn: Turn
) -> dict[CallId, PartialReply]:
    """What came of each open call of the turn, by call.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    opened = {o.call.id: o.call.seq for o in open_operations(turn) if isinstance(o, OpenModelCall)}
    texts: dict[CallId, list[str]] = {call_id: [] for call_id in opened}
    thought = dict.fromkeys(opened, 0)  # characters
    if opened:
        batches = event_log.read(session_id, after=min(opened.values()))
        async with aclosing(batches):
            async for rows in batches:
                for row in rows:
                    match row.envelope.event:
                        case TextDelta(call_id=call_id, text=text) if call_id in texts:
                            texts[call_id].append(text)
                        case ThinkingDelta(call_id=call_id, text=text) if call_id in thought:
                            thought[call_id] += len(text)
                        case _:
                            pass
    whole = {call_id: "".join(pieces) for call_id, pieces in texts.items()}
    return {
        call_id: PartialReply(text=text, said=len(text) + thought[call_id])
        for call_id, text in whole.items()
    }
