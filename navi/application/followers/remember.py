"""Draw from a turn what is worth remembering of its user, with one model call."""

import asyncio

from navi.application.ask_model import AskModelOnce, Question, ask_until_answered
from navi.application.record import Record
from navi.application.recorders import BesideTurns
from navi.domain.answer_bounds import FACTS
from navi.domain.events import MemorySaved, ModelReplied
from navi.domain.ids import NodeId
from navi.domain.messages import Message
from navi.domain.remembering import facts_of, is_enough, memory_messages
from navi.ports import Ids, Memories, Profiles

TEMPERATURE = 0.2
KNOWN = 20  # memories that are shown, so that none is kept twice


class Remember:
    """A follower of turns."""

    def __init__(
        self,
        ask_model: AskModelOnce,
        memories: Memories,
        profiles: Profiles,
        ids: Ids,
        node: NodeId,
    ) -> None:
        self._ask_model = ask_model
        self._memories = memories
        self._profiles = profiles
        self._ids = ids
        self._node = node

    async def __call__(self, record: Record, halt: asyncio.Event) -> None:
        """Ask for the facts of the last turn, and keep them."""
        turn = _last_turn(await _messages(record))
        if not turn or not record.session.owes("memory"):
            return
        said = " ".join(m.content for m in turn if m.role == "user")
        found = await self._memories.search(record.session.owner, said, limit=KNOWN)
        known = [memory.text for memory in found]
        profile = await self._profiles.get(record.session.profile_id)

        def conclude(reply: ModelReplied) -> tuple[MemorySaved, ...]:
            return tuple(
                MemorySaved(memory_id=self._ids.uuid(), text=fact.text, source_seq=fact.source_seq)
                for fact in facts_of(reply.content, turn=turn, known=known)
            )

        question = Question(
            purpose="memory",
            iteration=0,
            attempts=(),
            models=profile.models if profile is not None else (),
            messages=(),
            tools=(),
            temperature=TEMPERATURE,
            num_ctx=profile.num_ctx if profile is not None else None,
            think=False,
            context_seq=0,
            tail=memory_messages(turn, known),
            max_tokens=FACTS,
            enough=is_enough,
        )
        recorder = BesideTurns(record, self._node, halt, follows=True)
        await ask_until_answered(self._ask_model, recorder, question, conclude=conclude)


async def _messages(record: Record) -> list[Message]:
    context = await record.context()
    return [row for _, row in context.rows.visible()]


def _last_turn(messages: list[Message]) -> list[Message]:
    """The messages of the latest turn that stands in the context."""
    turn_id = next((m.turn_id for m in reversed(messages) if m.turn_id is not None), None)
    return [m for m in messages if m.turn_id == turn_id] if turn_id is not None else []
