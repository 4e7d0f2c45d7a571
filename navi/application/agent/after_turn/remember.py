"""Extract memories from a turn with one model call."""

import asyncio

from msgspec.structs import replace

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.agent.compose_request import compose_request
from navi.application.agent.model_calls.ask_model import AskModelOnce
from navi.application.agent.model_calls.ask_until_answered import ask_until_answered
from navi.application.agent.model_calls.recorders import BesideTurns
from navi.application.session.record import Record
from navi.domain.context.messages import Message
from navi.domain.memory.memory import not_recalled_yet, recalled_in
from navi.domain.memory.remembering import facts_of, is_enough, memory_question
from navi.domain.model_calls.answer_bounds import FACTS
from navi.domain.reading.fold import Fold
from navi.domain.session.session import FollowUp
from navi.domain.vocabulary.events import MemorySaved, ModelReplied
from navi.domain.vocabulary.ids import NodeId
from navi.ports.clock import Ids
from navi.ports.memories import Memories
from navi.ports.tools import ToolBox
from navi.projections.context import ContextState

TEMPERATURE = 0.2
KNOWN = 8  # memories that are named, so that none is kept twice, beside those in the context


class Remember:
    """A follow-up of a completed turn."""

    def __init__(
        self,
        ask_model: AskModelOnce,
        memories: Memories,
        profiles: ServedProfiles,
        tools: ToolBox,
        ids: Ids,
        node: NodeId,
    ) -> None:
        self._ask_model = ask_model
        self._memories = memories
        self._profiles = profiles
        self._tools = tools
        self._ids = ids
        self._node = node

    async def __call__(self, record: Record, halt: asyncio.Event) -> None:
        """Ask the model for facts about the user in the turns since it was asked last, and save them."""
        profile = await profile_of(record, self._profiles)
        turn = _turns_left(await record.context(), record.session.follow_up)
        if not turn or not record.session.owes("memory"):
            return
        said = " ".join(m.content for m in turn if m.role == "user" and not m.is_guidance)
        found = await self._memories.search(record.session.owner, said, limit=KNOWN)
        # The next turn may have been completed meanwhile: then this call settles for both.
        context = await record.context()
        follow_up = record.session.follow_up
        turn = _turns_left(context, follow_up)
        if follow_up is None or not turn:
            return
        seen = [row for key, row in context.rows.visible() if key <= follow_up.seq]
        new = [memory.text for memory in not_recalled_yet(found, seen)]
        known = [*recalled_in(seen), *new]

        def conclude(reply: ModelReplied) -> tuple[MemorySaved, ...]:
            return tuple(
                MemorySaved(memory_id=self._ids.uuid(), text=fact.text, source_seq=fact.source_seq)
                for fact in facts_of(reply.content, turn=turn, known=known)
            )

        question = replace(
            compose_request(record, context, profile, self._tools, follow_up=follow_up),
            purpose="memory",
            temperature=TEMPERATURE,
            think=False,
            tail=memory_question(turn, new),
            max_tokens=FACTS,
            enough=is_enough,
        )
        recorder = BesideTurns(record, self._node, halt, follows=True)
        await ask_until_answered(self._ask_model, recorder, question, conclude=conclude)


def _turns_left(context: Fold[ContextState], follow_up: FollowUp | None) -> list[Message]:
    """The messages of the turns that were not looked through yet, as far as they stand in the context."""
    if follow_up is None:
        return []
    messages = [row for key, row in context.rows.visible() if key <= follow_up.seq]
    if follow_up.turns:
        return [m for m in messages if m.turn_id in follow_up.turns]
    # A state that was kept before there were several.
    turn_id = next((m.turn_id for m in reversed(messages) if m.turn_id is not None), None)
    return [m for m in messages if m.turn_id == turn_id] if turn_id is not None else []
