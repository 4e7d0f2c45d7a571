"""Commands on the context: compress now, undo a compression."""

import asyncio

from msgspec import Struct

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.agent.compose_request import compose_request
from navi.application.agent.compress import CompressContext
from navi.application.agent.model_calls.recorders import BesideTurns
from navi.application.session.find_session import conversation
from navi.application.session.record import Records
from navi.domain.session.commands import RecordAside
from navi.domain.vocabulary.errors import ModelFailure, RuleBroken
from navi.domain.vocabulary.events import CompressionUndone, ContextCompressed
from navi.domain.vocabulary.ids import NodeId, SessionId
from navi.ports.tools import ToolBox


class Compressed(Struct, frozen=True, kw_only=True):
    """Whether the context changed, and the seq of the event that changed it, else of the session's last."""

    compressed: bool
    seq: int


class ManageContext:
    """Compresses contexts on request, and undoes it."""

    def __init__(
        self,
        records: Records,
        compress: CompressContext,
        profiles: ServedProfiles,
        tools: ToolBox,
        node: NodeId,
    ) -> None:
        self._records = records
        self._compress = compress
        self._profiles = profiles
        self._tools = tools
        self._node = node

    async def compress(self, session_id: SessionId) -> Compressed:
        """Compress the context now, however full it is.

        Raises:
            NotFound: no such session.
            RuleBroken: no model can be asked.
        """
        record = await conversation(self._records, session_id)
        recorder = BesideTurns(record, self._node, asyncio.Event(), follows=False)
        profile = await profile_of(record, self._profiles)
        try:
            context = await record.context()
            await self._compress(
                recorder,
                context,
                profile,
                "manual",
                lambda: compose_request(record, context, profile, self._tools),
                overflowed=False,
            )
        except ModelFailure as failure:
            raise RuleBroken(f"no model wrote a summary: {failure.error}") from failure
        last = recorder.last  # the session may have gone on since
        if last is not None and isinstance(last.event, ContextCompressed):
            return Compressed(compressed=True, seq=last.seq)
        return Compressed(compressed=False, seq=record.seq)

    async def undo(self, session_id: SessionId, compression_seq: int) -> Compressed:
        """Undo the latest compression.

        Raises:
            NotFound: no such session, or no such compression in force.
            RuleBroken: a later compression stands on this one.
        """
        record = await conversation(self._records, session_id)
        event = CompressionUndone(compression_seq=compression_seq)
        rows = await record.execute(RecordAside(events=(event,)))
        return Compressed(compressed=True, seq=rows[-1].seq)
