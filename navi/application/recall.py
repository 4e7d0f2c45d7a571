"""Put before the model what is remembered about the user; once a turn, as an event."""

from navi.application.patience import patiently
from navi.application.recorders import InTurn
from navi.domain.events import MemoryRecalled
from navi.domain.memory import recall_text
from navi.ports import Memories

MAX_RECALLED = 8  # memories: a few lines of the system message


async def recall(recorder: InTurn, memories: Memories, question: str) -> None:
    """Find what fits the turn's message; where there is nothing, nothing is recorded."""
    turn = recorder.record.session.turn
    if turn is None or turn.recalled is not None or turn.actor(None).iterations:
        return
    owner = recorder.record.session.owner
    found = await patiently(lambda: memories.search(owner, question, limit=MAX_RECALLED))
    if found:
        content = recall_text(found)
        await recorder(
            MemoryRecalled(memory_ids=tuple(memory.id for memory in found), content=content)
        )
