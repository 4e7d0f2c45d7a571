"""Relays that run while a test looks on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from navi.application.followers.relay import Following, Relay, RelayDelays
from navi.ports.event_stream import EventStream
from navi.ports.log_partitions import PartitionedLog
from tests.support.until import until

FAST = RelayDelays(recheck=0.02, stand_by=0.05, first_retry=0.01, last_retry=0.05)


@asynccontextmanager
async def running(
    events: PartitionedLog, stream: EventStream, *, pace: RelayDelays = FAST
) -> AsyncGenerator[Relay, None]:
    """A relay of partition 0 that runs as long as the block."""
    relay = Relay(events, stream, 0, pace)
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        task.cancel()
        await asyncio.wait({task})


async def caught_up(relay: Relay, position: int) -> None:
    """Wait until the relay has published everything up to a position."""
    done = Following(position=position, head=position)
    await until(lambda: relay.state == done)
