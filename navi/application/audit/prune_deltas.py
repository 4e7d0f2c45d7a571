"""Prune delta text of finished calls: their reply has all of it."""

from datetime import datetime

from msgspec import Struct

from navi.domain.vocabulary.ids import SessionId
from navi.ports.log_admin import LogErasure

STRETCH = 1000  # positions a step: a short transaction, so that nobody waits for its locks


class PrunedDeltas(Struct, frozen=True, kw_only=True):
    """How many deltas were pruned, and how many bytes of payload they had."""

    deltas: int
    bytes: int


async def prune_deltas(
    log: LogErasure,
    *,
    before: datetime,
    session_id: SessionId | None = None,
    dry_run: bool = False,
) -> PrunedDeltas:
    """Prune the whole log in short steps; idempotent.

    Args:
        before: only of deltas that are older.
        session_id: only of this session's own.
        dry_run: change nothing, say what would be.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    deltas = size = 0
    for partition in range(log.partitions):
        reached, head = 0, 1
        while reached < head:
            step = await log.prune(
                partition,
                after=reached,
                limit=STRETCH,
                before=before,
                session_id=session_id,
                dry_run=dry_run,
            )
            if step.reached == reached:
                break
            head = step.head if reached == 0 else head  # what is younger is not old enough
            reached, deltas, size = step.reached, deltas + step.deltas, size + step.bytes
    return PrunedDeltas(deltas=deltas, bytes=size)
