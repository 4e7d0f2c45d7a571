"""A navi that takes every connection and ends it is none that answers: pauses grow, and patience ends."""

import asyncio
from itertools import pairwise

import pytest

from navi.client import Navi, Unavailable, retry
from tests.support.leaving_server import SESSION, LeavingServer

DEADLINE = 60.0


@pytest.mark.parametrize("code", [1001, 1011], ids=["draining", "damaged"])
async def test_a_connection_that_ends_at_once_is_no_answer(code: int) -> None:
    server = LeavingServer(code=code)

    async with server.running() as url, Navi(url, patience=2) as navi:
        with pytest.raises(Unavailable, match=f"ended with {code}"):
            async with asyncio.timeout(DEADLINE):
                await anext(navi.session(SESSION).follow(after=1))

    assert server.asked == ["1"] * len(server.asked)
    assert len(server.asked) <= 5  # the pauses are 0.1, 0.2, 0.4 and 0.8 s


async def test_an_event_is_an_answer() -> None:
    server = LeavingServer((), (), (), (2,), (), (), (3,), code=1001)

    async with server.running() as url, Navi(url, patience=3) as navi:  # five growing pauses
        events = navi.session(SESSION).follow(after=1)
        async with asyncio.timeout(DEADLINE):
            seen = [(await anext(events))["seq"] for _ in range(2)]
        await events.aclose()

    assert seen == [2, 3]
    assert server.asked == ["1"] * 4 + ["2"] * 3
    pauses = [later - before for before, later in pairwise(server.times)]
    assert all(
        pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.1, 0.2, 0.4), strict=True)
    )


async def test_a_connection_that_has_lasted_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "LASTING_SECONDS", 0.0)
    server = LeavingServer(*[()] * 9, (2,), code=1001)

    async with server.running() as url, Navi(url, patience=0.5) as navi:
        events = navi.session(SESSION).follow(after=1)
        async with asyncio.timeout(DEADLINE):
            event = await anext(events)
        await events.aclose()

    assert event["seq"] == 2
    assert len(server.asked) == 10


async def test_an_open_turn_whose_connection_ends_before_its_first_event_is_not_lost() -> None:
    server = LeavingServer((), (6, 7, 8), code=1001, open_turn=6)

    async with server.running() as url, Navi(url, patience=2) as navi:
        events = navi.session(SESSION).follow()
        async with asyncio.timeout(DEADLINE):
            seen = [(await anext(events))["seq"] for _ in range(3)]
        await events.aclose()

    asked = f"/sessions/{SESSION}/events?type=turn_started&before=10&limit=1"
    assert (seen, server.asked[:3]) == ([6, 7, 8], ["", asked, "5"])
