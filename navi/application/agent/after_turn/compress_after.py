"""Compress after a turn, so that the next message need not wait for it."""

import asyncio

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.agent.compose_request import compose_request
from navi.application.agent.compress import CompressContext
from navi.application.agent.model_calls.question import Question
from navi.application.agent.model_calls.recorders import BesideTurns
from navi.application.session.record import Record
from navi.domain.vocabulary.ids import NodeId
from navi.ports.tools import ToolBox


class CompressAfter:
    """A follow-up of a completed turn."""

    def __init__(
        self, compress: CompressContext, profiles: ServedProfiles, tools: ToolBox, node: NodeId
    ) -> None:
        self._compress = compress
        self._profiles = profiles
        self._tools = tools
        self._node = node

    async def __call__(self, record: Record, halt: asyncio.Event) -> None:
        """Compress if due and no turn is open; once ``halt`` is set, the model call is closed."""
        profile = await profile_of(record, self._profiles)
        context = await record.context()
        if record.session.turn is not None:
            return
        if (await self._compress.fill(context, profile, overflowed=False)).full:
            recorder = BesideTurns(record, self._node, halt, follows=True)

            def begun() -> Question:
                return compose_request(
                    record, context, profile, self._tools, follow_up=record.session.follow_up
                )

            await self._compress(recorder, context, profile, "post_turn", begun, overflowed=False)
