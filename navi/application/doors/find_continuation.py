"""Find the session that a conversation of another program goes on from, by what was said in it."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from navi.application.reading.read_session import open_fold
from navi.domain.reading.conversation import (
    Continuation,
    KnownConversation,
    Mark,
    continuation,
    marks_of,
)
from navi.domain.vocabulary.events import Said
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels
from navi.projections.conversation import Conversation, known_to

TAIL_ROWS = 1000  # of a partition's log, read at a time
MAX_LOOKED_AT = 20  # sessions that know equally much: many chats begin with the same words


async def find_continuation(
    log: PartitionedLog,
    read_models: ReadModels,
    *,
    owner: Owner,
    start: Mark,
    history: Sequence[Said],
    moved_on: Collection[SessionId] = (),
) -> Continuation | None:
    """Where the owner's conversation goes on; None where none of their sessions knows of it.

    Nothing committed before the call is missed, however far the read model is behind.

    Args:
        start: the mark of the conversation's beginning.
        history: what was said before the message that is to be sent now.
        moved_on: sessions in which somebody else was faster: as those in which a message waits.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    marks = marks_of(start, history)
    positions = await read_models.positions(Conversation.name, Conversation.version)
    changed: dict[SessionId, None] = {}
    for partition in range(log.partitions):
        for session_id in await _changed(log, partition, positions.get(partition, 0), owner):
            changed[session_id] = None
    stored = await read_models.find_marks(Conversation.version, owner=owner, marks=marks)
    numbers = {mark: number for number, mark in enumerate(marks)}
    furthest = max((numbers[mark] for _, mark in stored), default=0)
    nearest = sorted({id_ for id_, mark in stored if mark == marks[furthest]}, reverse=True)
    sessions: list[KnownConversation] = []
    for session_id in dict.fromkeys((*changed, *nearest[:MAX_LOOKED_AT])):
        known = await _known(log, read_models, session_id)
        if known is not None:
            waits = known.waits or session_id in moved_on
            sessions.append(replace(known, waits=waits))
    return continuation(marks, history, sessions)


async def _changed(log: PartitionedLog, partition: int, after: int, owner: Owner) -> set[SessionId]:
    """The owner's sessions with events behind a position."""
    found: set[SessionId] = set()
    while True:
        page = await log.read_all(partition, after=after, limit=TAIL_ROWS, deltas=False)
        found.update(row.session_id for row in page.rows if row.owner == owner)
        after = page.reached
        if after >= page.head:
            return found


async def _known(
    log: PartitionedLog, read_models: ReadModels, session_id: SessionId
) -> KnownConversation | None:
    fold = await open_fold(log, read_models, Conversation(), session_id)
    if fold.state.deleted:
        return None
    # Of a mark that a session has come by twice, as after changed instructions, the later place counts.
    places: dict[Mark, int] = {row.mark: key for key, row in fold.rows.visible()}
    return known_to(session_id, fold.seq, fold.state, places)
