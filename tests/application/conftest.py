"""Whatever a test of turns does: its sessions run again from their logs without a difference."""

from collections.abc import AsyncGenerator

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from tests.support.agent_node import WORLDS
from tests.support.rerunning import first_erased, run_again


@pytest.fixture(autouse=True)
async def every_session_runs_again() -> AsyncGenerator[None, None]:
    WORLDS.clear()
    yield
    for world in WORLDS:
        if not isinstance(world.log, InMemoryEventLog):  # its server is gone by now
            continue
        for head in await world.log.sessions():
            until = await first_erased(world, head.session_id)
            difference = await run_again(world, head.session_id, until=until)
            assert difference is None, difference
    WORLDS.clear()
