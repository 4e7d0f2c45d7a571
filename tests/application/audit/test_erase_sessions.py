"""What an erasure leaves, whatever goes on meanwhile and wherever it is cut off."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.system import RandomIds, SystemClock
from navi.application.audit.erase_sessions import Erasable, EraseSessions
from navi.application.audit.verify_log import verify_session
from navi.application.followers.project import Projector
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import ManageMemories
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.memory.memory import Memory
from navi.domain.session.commands import CreateSession
from navi.domain.vocabulary.errors import LogUnavailable, NotFound
from navi.domain.vocabulary.ids import LOCAL_OWNER, NodeId, Owner, owner_stream
from navi.ports.log_partitions import Page
from navi.projections.registry import PROJECTIONS
from tests.application.sample import session, uuid

A = session(1)


class BusyMemories(ManageMemories):
    """While they are forgotten the agent saves another, and Postgres may go away."""

    is_cut = False

    async def forget_all(self, owner: Owner, memories: Sequence[Memory]) -> None:
        with suppress(NotFound):  # the session is deleted
            await self.save_in_session(A, owner, "said meanwhile")
        if self.is_cut:
            raise LogUnavailable("Postgres does not answer")
        await super().forget_all(owner, memories)


class SearchedLog(InMemoryEventLog):
    """Counts how often it was searched from its beginning."""

    passes = 0

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        self.passes += after == 0
        return await super().find(partition, after=after, limit=limit, owner=owner, parts=parts)


class Scene:
    """A session with two memories."""

    def __init__(self, files: Path) -> None:
        clock, texts, read_models = SystemClock(), InMemoryTextStore(), InMemoryReadModels()
        self.log = SearchedLog()
        self.records = Records(
            self.log, read_models, clock, RandomIds(), NodeId(uuid(9)), Secrets()
        )
        kept = InMemoryMemories(NoEmbedders())
        erase = EraseMemory(self.log, texts, self.records, read_models)
        keeper = KeepMemories(self.log, kept, erase, read_models)
        self.memories = BusyMemories(self.records, kept, keeper, erase, RandomIds())
        self._erasing = EraseSessions(
            self.log,
            texts,
            read_models,
            self.records,
            self.memories,
            FolderWorkspaces(files),
            FolderUploads(files, clock),
            Projector(self.log, read_models, PROJECTIONS, clock),
        )

    async def begin(self) -> None:
        record = await self.records.open(A)
        await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
        for text in ("I drink tea", "I live in Rome"):
            await self.memories.save_in_session(A, LOCAL_OWNER, text)

    async def erase(self) -> None:
        await self._erasing.erase([await self._erasing.survey(A)], told=_nobody)

    async def erase_owner(self) -> None:
        found = [
            await self._erasing.survey(id_) for id_ in await self._erasing.of_owner(LOCAL_OWNER)
        ]
        await self._erasing.erase(found, told=_nobody)

    async def remembered(self) -> list[str]:
        return [memory.text for memory in await self.memories.list(LOCAL_OWNER)]

    async def problems(self) -> list[str]:
        return [
            problem.reason
            for session_id in (A, owner_stream(LOCAL_OWNER))
            for problem in (await verify_session(self.log, session_id)).problems
        ]


async def _nobody(_: Erasable) -> None: ...


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    await scene.begin()
    return scene


async def test_no_memory_is_left_that_was_saved_meanwhile(scene: Scene) -> None:
    await scene.erase()

    assert (await scene.remembered(), await scene.problems()) == ([], [])


async def test_what_was_cut_off_while_it_forgot_is_completed(scene: Scene) -> None:
    scene.memories.is_cut = True
    with pytest.raises(LogUnavailable):
        await scene.erase()
    scene.memories.is_cut = False

    await scene.erase()

    assert not (await scene.records.open(A)).session.exists
    assert (await scene.remembered(), await scene.problems()) == ([], [])


async def test_the_memories_of_an_owner_are_looked_for_together(scene: Scene) -> None:
    await scene.memories.add(LOCAL_OWNER, "I was made by hand")

    await scene.erase_owner()

    # Once before they are forgotten, and once for what was recalled meanwhile.
    assert (await scene.remembered(), scene.log.passes) == ([], 2)
    assert await scene.problems() == []
