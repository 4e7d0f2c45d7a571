"""Memories follow the log, however much of it there is already."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.system import RandomIds, SystemClock
from navi.application.memory import keep_memories
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.errors import LogDamaged
from navi.domain.vocabulary.ids import NodeId
from navi.ports.log_partitions import Page
from tests.application.sample import CREATED, append, said, session, uuid

PAGES = 60
SECONDS = 11.0  # a rest of 0.2 s behind each page would take 12


async def test_what_was_there_before_is_followed_without_a_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keep_memories, "PAGE", 2)
    log, memories = InMemoryEventLog(), InMemoryMemories(NoEmbedders())
    messages = (said(f"message {number}") for number in range(2 * PAGES - 1))
    await append(log, session(1), CREATED, *messages)

    async with asyncio.timeout(SECONDS), following(keeping(log, memories)):
        await reached(memories, 2 * PAGES)


class DamagedAtFirst(InMemoryEventLog):
    """A log that cannot be read the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged = 1

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        if self.damaged:
            self.damaged -= 1
            raise LogDamaged("a position is missing")
        return await super().read_all(partition, after=after, limit=limit, deltas=deltas)


async def test_whatever_went_wrong_once_they_are_followed_again() -> None:
    log, memories = DamagedAtFirst(), InMemoryMemories(NoEmbedders())
    await append(log, session(1), CREATED)

    async with asyncio.timeout(SECONDS), following(keeping(log, memories)):
        await reached(memories, 1)

    assert log.damaged == 0


def keeping(log: InMemoryEventLog, memories: InMemoryMemories) -> KeepMemories:
    read_models = InMemoryReadModels()
    records = Records(
        *(log, read_models, SystemClock(), RandomIds()), *(NodeId(uuid(9)), Secrets())
    )
    erase = EraseMemory(log, InMemoryTextStore(), records, read_models)
    return KeepMemories(log, memories, erase, read_models)


@asynccontextmanager
async def following(keep: KeepMemories) -> AsyncGenerator[None, None]:
    """While the block runs the log is followed."""
    running = asyncio.create_task(keep.run())
    try:
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def reached(memories: InMemoryMemories, position: int) -> None:
    """Wait until the memories are as of a position."""
    while await memories.position(0) < position:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
