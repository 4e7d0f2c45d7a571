"""Recall memories for a turn: search them, log what goes into the prompt."""

from navi.application.agent.model_calls.recorders import InTurn
from navi.application.session.retry import with_retry
from navi.domain.memory.memory import not_recalled_yet, recall_text
from navi.domain.vocabulary.events import MemoryRecalled
from navi.ports.memories import Memories

MAX_RECALLED = 8  # memories: a few lines beside the message


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
    found = await with_retry(lambda: memories.search(owner, question, limit=MAX_RECALLED))
    context = await with_retry(record.context)
    new = not_recalled_yet(found, (message for _, message in context.rows.visible()))
    if new:
        content = recall_text(new)
        ids = tuple(memory.id for memory in new)
        await recorder(MemoryRecalled(memory_ids=ids, content=content, beside=True))
        # One may have been forgotten meanwhile, and what had recalled it was erased before this came.
        await with_retry(lambda: memories.note_unerased(owner, new))
