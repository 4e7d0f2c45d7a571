"""Recall memories for a turn: search them, log what goes into the prompt."""

import asyncio

import structlog

from navi.application.agent.model_calls.recorders import InTurn
from navi.application.session.retry import with_retry
from navi.domain.memory.memory import Memory, not_recalled_yet, recall_text
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import MemoryRecalled
from navi.ports.memories import Memories
from navi.race import race

log = structlog.get_logger()

MAX_RECALLED = 8  # memories: a few lines beside the message
# More than a search waits for the embedding of its question, and less than a read of Postgres may take.
RECALL_SECONDS = 3.0


async def recall(recorder: InTurn, memories: Memories, question: str) -> None:
    """Find what fits the turn's message; where there is nothing new, nothing is recorded.

    It stands behind the message, where it breaks no prefix, and stays there: what an earlier turn was
    told need not be said again while it stands in the context.
    """
    record = recorder.record
    turn = record.session.turn
    if (
        record.session.plain
        or turn is None
        or turn.recalled is not None
        or turn.actor(None).iterations
    ):
        return
    owner = record.session.owner
    found = await _found_in_time(recorder, memories, question)
    if not found:
        return
    context = await with_retry(record.context)
    new = not_recalled_yet(found, (message for _, message in context.rows.visible()))
    if new:
        content = recall_text(new)
        ids = tuple(memory.id for memory in new)
        await recorder(MemoryRecalled(memory_ids=ids, content=content, beside=True))
        # One may have been forgotten meanwhile, and what had recalled it was erased before this came.
        await with_retry(lambda: memories.note_unerased(owner, new))


async def _found_in_time(recorder: InTurn, memories: Memories, question: str) -> tuple[Memory, ...]:
    """What fits the question; nothing where the search takes too long, or the turn is to halt first.

    Asked once: of many memories it may take too long each time, which is no outage that a turn could
    wait for. In an outage the next append waits.
    """
    try:
        async with asyncio.timeout(RECALL_SECONDS):
            return await race(
                memories.search(recorder.owner, question, limit=MAX_RECALLED),
                _halted(recorder.halt),
            )
    except (TimeoutError, LogUnavailable) as error:
        log.warning("turn_recalls_nothing", reason=str(error) or type(error).__name__)
        return ()


async def _halted(halt: asyncio.Event) -> tuple[Memory, ...]:
    await halt.wait()
    return ()
