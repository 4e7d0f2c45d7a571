"""What an erasure of a fork reads: its own events, and not those of its origin."""

from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec.structs import replace

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.system import RandomIds, SystemClock
from navi.application.audit.erase_sessions import Erasable, EraseSessions
from navi.application.followers.project import Projector
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import ManageMemories
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.events import Origin, SessionRenamed
from navi.domain.vocabulary.ids import NodeId, SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from navi.projections.registry import PROJECTIONS
from tests.application.sample import CREATED, append, session, uuid

ORIGIN, FORK = session(1), session(2)


class NotedLog(InMemoryEventLog):
    """Notes whose events readers of sessions are given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[SessionId] = []

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async for rows in super().read(session_id, after=after, until=until, types=types):
            self.given.extend(row.session_id for row in rows)
            yield rows


async def test_of_a_forks_origin_nothing_is_read(tmp_path: Path) -> None:
    log, read_models = NotedLog(), InMemoryReadModels()
    renamed = SessionRenamed(name="other", by="user")
    await append(log, ORIGIN, CREATED, *([renamed] * 999))
    forked = replace(CREATED, forked_from=Origin(session_id=ORIGIN, seq=1000))
    await append(log, FORK, forked, renamed, renamed, expected=1000)
    await Projector(log, read_models, PROJECTIONS, SystemClock()).caught_up()
    erasing = erase_sessions(log, read_models, tmp_path)
    log.given.clear()

    [erased] = await erasing.erase([await erasing.survey(FORK)], told=_nobody)

    assert erased.events == 4  # its deletion is the fourth
    assert (set(log.given), await log.head(ORIGIN)) == ({FORK}, 1000)


def erase_sessions(log: NotedLog, read_models: InMemoryReadModels, files: Path) -> EraseSessions:
    """Erases; read models are not folded anew, which reads origins, too."""
    clock, ids, texts = SystemClock(), RandomIds(), InMemoryTextStore()
    records = Records(log, read_models, clock, ids, NodeId(uuid(9)), Secrets())
    kept = InMemoryMemories(NoEmbedders())
    erase = EraseMemory(log, texts, records, read_models)
    keeper = KeepMemories(log, kept, erase, read_models)
    return EraseSessions(
        log,
        texts,
        read_models,
        records,
        ManageMemories(records, kept, keeper, erase, ids),
        FolderWorkspaces(files),
        FolderUploads(files, clock),
        Projector(log, read_models, [], clock),
    )


async def _nobody(_: Erasable) -> None: ...
