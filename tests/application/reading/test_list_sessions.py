"""A list of many sessions holds up nothing else in its process."""

import asyncio

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.list_sessions import AT_ONCE, list_sessions
from navi.domain.vocabulary.ids import LOCAL_OWNER
from navi.projections.sessions import Sessions
from tests.application.sample import CREATED, append, session

SESSIONS = 5 * AT_ONCE


async def test_while_a_long_list_is_read_others_have_their_turns() -> None:
    log, read_models = InMemoryEventLog(), InMemoryReadModels()
    for number in range(SESSIONS):
        await append(log, session(number + 1), CREATED)
    await Projector(log, read_models, [Sessions()], SystemClock()).caught_up()
    turns = 0

    async def stream() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    streaming = asyncio.create_task(stream())
    page = await list_sessions(log, read_models, owner=LOCAL_OWNER)
    streaming.cancel()

    assert len(page.sessions) == SESSIONS
    # Once for each part that is decoded, and once for each that is brought to the head of its log.
    assert turns >= 2 * SESSIONS // AT_ONCE - 1
