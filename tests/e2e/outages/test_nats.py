"""A NATS that goes away, seen from outside: chat goes on, and all is published in order afterwards.

What is minutes in life is seconds here: nothing in navi counts how long NATS has been away.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import nats
import pytest

from tests.support.navi_process import NaviProcess
from tests.support.outage_servers import Backing
from tests.support.promises import broken_promises
from tests.support.published import assert_published
from tests.support.stubborn_client import events_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURN_SECONDS = 30.0  # a turn without NATS; a hundredth of it, and a busy machine's
FLAPS = 15


@asynccontextmanager
async def away(backing: Backing) -> AsyncGenerator[None, None]:
    backing.nats_proxy.add("drop")
    backing.nats_proxy.reset_now()
    yield
    backing.nats_proxy.clear()


@asynccontextmanager
async def flapping(backing: Backing) -> AsyncGenerator[None, None]:
    async def flap() -> None:
        for _ in range(FLAPS):
            backing.nats_proxy.reset_now()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(flap())
    yield
    await task


@asynccontextmanager
async def frozen(backing: Backing) -> AsyncGenerator[None, None]:
    backing.freeze_nats()
    yield
    backing.thaw_nats()


@asynccontextmanager
async def emptied(backing: Backing) -> AsyncGenerator[None, None]:
    """It comes back without anything that it had."""
    await asyncio.to_thread(shutil.rmtree, backing.nats_store)
    backing.end_nats()
    yield


@asynccontextmanager
async def deleted(backing: Backing) -> AsyncGenerator[None, None]:
    client = await nats.connect(backing.nats_url)
    await client.jetstream().delete_stream("NAVI_0")
    await client.close()
    yield


@pytest.mark.parametrize("fault", [away, flapping, frozen, emptied, deleted])
async def test_chat_goes_on_and_all_is_published_in_order_afterwards(
    backing: Backing,
    navi: NaviProcess,
    fault: Callable[[Backing], AbstractAsyncContextManager[None]],
) -> None:
    session_id = await navi.new_session()
    await navi.drop(session_id, "!pace 0.01\n!repeat 20 word")
    await navi.until(session_id, "text_delta")

    async with fault(backing):
        for number in range(3):
            began = time.monotonic()
            outcome = await navi.say(
                session_id, f'!tool todo {{"action": "list"}}\n!then\n!say {number}'
            )
            took = time.monotonic() - began
            assert (outcome["content"], took < TURN_SECONDS) == (str(number), True), took

    await assert_published(navi, backing.nats_url)
    assert broken_promises(await events_of(navi, session_id)) == []
