"""Memories follow the log, however much of it there is already."""

import asyncio
import contextlib

import pytest

from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.application.memory import keep_memories
from navi.application.memory.keep_memories import KeepMemories
from tests.application.sample import CREATED, append, said, session

PAGES = 60
SECONDS = 5.0  # a rest of 0.2 s behind each page would take 12


async def test_what_was_there_before_is_followed_without_a_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keep_memories, "PAGE", 2)
    log, memories = InMemoryEventLog(), InMemoryMemories(NoEmbedders())
    messages = (said(f"message {number}") for number in range(2 * PAGES - 1))
    await append(log, session(1), CREATED, *messages)

    async with asyncio.timeout(SECONDS):
        following = asyncio.create_task(KeepMemories(log, memories).run())
        try:
            while await memories.position(0) < 2 * PAGES:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
