"""An alarm, by which one call's reader and the one that logs wait for each other."""

import asyncio

from navi.application.agent.model_calls.alarm import Alarm

LONG = 3600.0  # seconds: longer than any test


async def test_a_ring_while_nobody_waits_ends_the_next_wait() -> None:
    alarm = Alarm()

    alarm.ring()

    await alarm.wait(LONG)
    alarm.stop()


async def test_a_moment_may_be_moved_nearer_and_not_away() -> None:
    alarm = Alarm()
    waiting = asyncio.ensure_future(alarm.wait(LONG))
    await asyncio.sleep(0)

    alarm.within(0.01)
    alarm.within(LONG)

    await waiting
    alarm.stop()


async def test_a_moment_that_has_passed_is_a_ring() -> None:
    alarm = Alarm()

    await alarm.wait(-1)
    alarm.stop()
