"""Give a session a name after its first exchange, unless its user gave one."""

import asyncio

from navi.application.ask_model import AskModelOnce, Question, ask_until_answered
from navi.application.record import Record
from navi.application.recorders import BesideTurns
from navi.domain.answer_bounds import NAME
from navi.domain.events import ModelReplied, SessionRenamed
from navi.domain.ids import NodeId
from navi.domain.naming import clean_name, is_named, naming_messages
from navi.ports import Profiles

TEMPERATURE = 0.3


class NameSession:
    """A follower of turns."""

    def __init__(self, ask_model: AskModelOnce, profiles: Profiles, node: NodeId) -> None:
        self._ask_model = ask_model
        self._profiles = profiles
        self._node = node

    async def __call__(self, record: Record, halt: asyncio.Event) -> None:
        """Ask for a name, where there is none yet."""
        if not record.session.owes("naming"):
            return
        context = await record.context()
        messages = [row for _, row in context.rows.visible()]
        said = next((m.content for m in messages if m.role == "user" and not m.is_guidance), None)
        if said is None:
            return
        answered = [m.content for m in messages if m.role == "assistant" and m.content]
        profile = await self._profiles.get(record.session.profile_id)
        recorder = BesideTurns(record, self._node, halt, follows=True)
        question = Question(
            purpose="naming",
            iteration=0,
            attempts=(),
            models=profile.models if profile is not None else (),
            messages=(),
            tools=(),
            temperature=TEMPERATURE,
            num_ctx=profile.num_ctx if profile is not None else None,
            think=False,
            context_seq=0,
            tail=naming_messages(said, answered[-1] if answered else ""),
            max_tokens=NAME,
            enough=is_named,
        )
        await ask_until_answered(self._ask_model, recorder, question, conclude=_named)


def _named(reply: ModelReplied) -> tuple[SessionRenamed, ...]:
    name = clean_name(reply.content)
    return (SessionRenamed(name=name, by="auto"),) if name is not None else ()
