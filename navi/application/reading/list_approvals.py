"""List the tool calls that wait for a person: a fold of the log, as up to date as the list of sessions."""

from datetime import datetime

from msgspec import Struct

from navi.application.reading.catalogue import unfinished_now
from navi.domain.session.session import Session, undecided_calls
from navi.domain.vocabulary.events import ApprovalRequested, JsonObject
from navi.domain.vocabulary.ids import CallId, Owner, SessionId
from navi.ports.event_log import EventLog, Recorded
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels


class WaitingApproval(Struct, frozen=True, kw_only=True):
    """A tool call that waits for a person, and since when."""

    session_id: SessionId
    owner: Owner
    call_id: CallId
    name: str
    arguments: JsonObject
    reason: str
    preview: str
    at: datetime


async def waiting_approvals(
    log: PartitionedLog, read_models: ReadModels, *, owner: Owner | None
) -> tuple[WaitingApproval, ...]:
    """Everything that the owner's sessions wait for, oldest first.

    Args:
        owner: whose; None for everybody's.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    found = [
        waiting
        for session in await unfinished_now(log, read_models, owner=owner)
        if session.exists
        for waiting in await _of_session(log, session)
    ]
    return tuple(sorted(found, key=lambda waiting: (waiting.at, waiting.call_id)))


async def undecided_requests(
    log: EventLog, session: Session
) -> list[tuple[Recorded, ApprovalRequested]]:
    """The requests that a session waits for a decision on: what they ask stands in the log alone.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    found: list[tuple[Recorded, ApprovalRequested]] = []
    for run in undecided_calls(session):
        assert run.asked is not None  # noqa: S101 - nobody waits who has not asked
        async for rows in log.read(session.id, after=run.asked.seq - 1, until=run.asked.seq):
            event = rows[0].readable
            if isinstance(event, ApprovalRequested):
                found.append((rows[0], event))
    return found


async def _of_session(log: PartitionedLog, session: Session) -> list[WaitingApproval]:
    return [
        WaitingApproval(
            session_id=session.id,
            owner=session.owner,
            call_id=event.call_id,
            name=event.name,
            arguments=event.arguments,
            reason=event.reason,
            preview=event.preview,
            at=row.at,
        )
        for row, event in await undecided_requests(log, session)
    ]
