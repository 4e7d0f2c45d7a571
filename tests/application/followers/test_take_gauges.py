"""Gauges are measured when they are asked for, and left out where nobody can tell."""

import pytest

from navi.adapters.in_memory.event_stream import InMemoryEventStream
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.application.followers.relay import Degraded, Relay, RelayDelays, StandingBy
from navi.application.followers.take_gauges import TakeGauges
from navi.projections.registry import PROJECTIONS
from tests.application.followers.relaying import caught_up, running
from tests.support.growing_log import GrowingLog
from tests.support.until import until


def gauges(log: GrowingLog, relay: Relay) -> TakeGauges:
    return TakeGauges(log, InMemoryReadModels(), [relay], PROJECTIONS, running=lambda: 3)


async def test_what_nats_lacks_is_told_while_it_is_away() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    async with running(log, stream) as relay:
        await caught_up(relay, 10)
        stream.reachable = False
        log.grow(5)
        await until(lambda: isinstance(relay.state, Degraded))

        found = await gauges(log, relay).take()

    assert (found.relay_lag, found.turns_running) == (5, 3)


@pytest.mark.parametrize("behind", [0, 2])
async def test_a_node_that_stands_by_tells_what_it_saw_at_its_last_look(behind: int) -> None:
    log = GrowingLog(5000)
    relay = Relay(log, InMemoryEventStream(), 0, RelayDelays())
    relay.reached = 5
    relay.state = StandingBy(position=5, head=5 + behind)

    found = await gauges(log, relay).take()

    assert found.relay_lag == behind


async def test_of_a_stream_that_was_never_seen_nothing_is_told() -> None:
    log, stream = GrowingLog(10), InMemoryEventStream()
    stream.reachable = False
    async with running(log, stream) as relay:
        await until(lambda: isinstance(relay.state, Degraded))

        found = await gauges(log, relay).take()

    assert found.relay_lag is None
    assert found.projection_lag == {one.name: 10 for one in PROJECTIONS}
