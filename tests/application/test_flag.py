"""``Flag``: what it shares with ``asyncio.Event``."""

import asyncio
from collections.abc import Callable

import pytest

from navi.flag import Flag

Event = Flag | asyncio.Event


@pytest.fixture(params=[Flag, asyncio.Event])
def flag(request: pytest.FixtureRequest) -> Event:
    make: Callable[[], Event] = request.param
    return make()


async def begun(flag: Event) -> asyncio.Task[bool]:
    waiting = asyncio.ensure_future(flag.wait())
    await asyncio.sleep(0)
    return waiting


async def test_who_waits_goes_on_once_it_is_set(flag: Event) -> None:
    first, second = await begun(flag), await begun(flag)
    assert not first.done()

    flag.set()

    assert await first
    assert await second


async def test_nobody_waits_while_it_is_set(flag: Event) -> None:
    flag.set()

    assert flag.is_set()
    assert await flag.wait()


async def test_who_comes_after_a_clear_waits_for_the_next_set(flag: Event) -> None:
    before = await begun(flag)
    flag.set()
    flag.clear()
    after = await begun(flag)

    assert await before
    assert not flag.is_set()
    assert not after.done()
    flag.set()
    assert await after


async def test_one_that_is_cancelled_takes_no_other_with_it(flag: Event) -> None:
    leaving, staying = await begun(flag), await begun(flag)

    leaving.cancel()
    flag.set()

    assert await staying
    assert (await asyncio.gather(leaving, return_exceptions=True)) != [True]


async def test_one_that_left_is_not_woken(flag: Event) -> None:
    leaving = await begun(flag)
    leaving.cancel()
    await asyncio.wait({leaving})

    flag.set()

    assert leaving.cancelled()
