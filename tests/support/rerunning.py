"""Sessions of a test run again without a network."""

import asyncio

from navi.application.rerun.load import load_recording
from navi.application.rerun.rerun import Difference
from navi.bootstrap.rerun import rerun
from navi.domain.vocabulary.ids import SessionId
from tests.support.agent_node import World


async def first_erased(world: World, session_id: SessionId) -> int | None:
    """The seq up to which nothing of a session is erased; None where nothing is at all."""
    for row in await world.events(session_id):
        if row.salt is None and not row.type.endswith("_delta"):
            return row.seq - 1
    return None


async def run_again(
    world: World, session_id: SessionId, *, until: int | None = None
) -> Difference | None:
    """The first difference of a session that is run again from its log."""
    loaded = await load_recording(world.log, world.texts, session_id, until=until)
    return await asyncio.to_thread(rerun, loaded.envelopes, loaded.texts, until=until)
