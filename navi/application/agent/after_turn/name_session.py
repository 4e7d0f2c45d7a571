"""Name a session after its first exchange, unless the user has."""

import asyncio

from msgspec.structs import replace

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.agent.compose_request import compose_request
from navi.application.agent.model_calls.ask_model import AskModelOnce
from navi.application.agent.model_calls.ask_until_answered import ask_until_answered
from navi.application.agent.model_calls.recorders import BesideTurns
from navi.application.session.record import Record
from navi.domain.agent.naming import clean_name, is_named, naming_question
from navi.domain.model_calls.answer_bounds import NAME
from navi.domain.vocabulary.events import ModelReplied, SessionRenamed
from navi.domain.vocabulary.ids import NodeId
from navi.ports.tools import ToolBox

TEMPERATURE = 0.3


class NameSession:
    """A follow-up of a completed turn."""

    def __init__(
        self, ask_model: AskModelOnce, profiles: ServedProfiles, tools: ToolBox, node: NodeId
    ) -> None:
        self._ask_model = ask_model
        self._profiles = profiles
        self._tools = tools
        self._node = node

    async def __call__(self, record: Record, halt: asyncio.Event) -> None:
        """Ask the model for a name if the session has none."""
        profile = await profile_of(record, self._profiles)
        context = await record.context()
        follow_up = record.session.follow_up
        if follow_up is None or not record.session.owes("naming"):
            return
        if not any(m.role == "user" and not m.is_guidance for _, m in context.rows.visible()):
            return
        question = replace(
            compose_request(record, context, profile, self._tools, follow_up=follow_up),
            purpose="naming",
            temperature=TEMPERATURE,
            think=False,
            tail=naming_question(),
            max_tokens=NAME,
            enough=is_named,
        )
        recorder = BesideTurns(record, self._node, halt, follows=True)
        await ask_until_answered(self._ask_model, recorder, question, conclude=_named)


def _named(reply: ModelReplied) -> tuple[SessionRenamed, ...]:
    name = clean_name(reply.content)
    return (SessionRenamed(name=name, by="auto"),) if name is not None else ()
