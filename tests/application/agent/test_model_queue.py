"""Calls that wait for a slot, on a clock that is as fast as the machine."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.application.agent.model_calls.model_queue import (
    MOMENT,
    TELL_SECONDS,
    GaveWay,
    KeptSlot,
    ModelQueue,
    any_set,
)
from navi.domain.model_calls.model_queue import QUIET_SECONDS
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId

SERVER = "llama"
ANEW_SECONDS = 0.25  # that a test takes for another question


def now() -> float:
    return asyncio.get_running_loop().time()


class Planned(NamedTuple):
    """A call that a test makes, times in seconds; ``end`` is what becomes of it after ``until``."""

    session: str
    at: float
    lasts: float
    follows: bool = False
    end: Literal["cancel", "halt"] | None = None
    until: float = 0.0
    anew: int = 0  # how often it is asked anew when it has its slot


class Scene:
    """One server, and what its calls went through."""

    def __init__(self, slots: int) -> None:
        self.queue = ModelQueue()
        self.slots = slots
        self.at_work = 0
        self.most = 0
        self.said: list[str] = []
        self.waits: list[tuple[float, float]] = []  # of people, from and to
        self.follow_ups: list[tuple[float, float]] = []  # at work, from and to
        self.told: list[list[tuple[float, int]]] = []

    async def play(self, *plans: Planned) -> None:
        await asyncio.gather(*(self._play(plan) for plan in plans))

    async def _play(self, plan: Planned) -> None:
        await asyncio.sleep(plan.at)
        halt = asyncio.Event()
        call = self._follow_up if plan.follows else self._person
        task = asyncio.create_task(call(plan, halt))
        if plan.end is not None:
            await asyncio.wait({task}, timeout=plan.until)
            if plan.end == "halt":
                halt.set()
            else:
                task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _person(self, plan: Planned, halt: asyncio.Event) -> None:
        since, told = now(), list[tuple[float, int]]()
        self.told.append(told)

        async def tell(place: int) -> None:
            told.append((now(), place))

        session = SessionId(plan.session)
        with KeptSlot() as kept:
            for left in range(plan.anew, -1, -1):
                waiting = self.queue.slot(
                    SERVER,
                    slots=self.slots,
                    owner=LOCAL_OWNER,
                    session_id=session,
                    halt=halt,
                    tell=tell,
                    kept=kept,
                )
                async with AsyncExitStack() as stack:
                    try:
                        slot = await stack.enter_async_context(waiting)
                    finally:
                        self.waits.append((since, now()))
                    if slot is None:
                        return
                    if not left:
                        await self._work(plan, halt)
                    else:
                        kept.keep(slot)
                await asyncio.sleep(ANEW_SECONDS)
                since = now()

    async def _follow_up(self, plan: Planned, halt: asyncio.Event) -> None:
        session = SessionId(plan.session)
        while True:
            with suppress(GaveWay):
                async with self.queue.idle_slot(
                    SERVER, slots=self.slots, owner=LOCAL_OWNER, session_id=session, halt=halt
                ) as slot:
                    if slot is None:
                        return
                    since, way = now(), slot.give_way
                    try:
                        await self._work(plan, halt, way)
                    finally:
                        self.follow_ups.append((since, now()))
                    if not way.is_set():
                        return

    async def _work(self, plan: Planned, *ends: asyncio.Event) -> None:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        self.said.append(plan.session)
        try:
            await any_set(*ends, within=plan.lasts)
        finally:
            self.at_work -= 1


def played(*plans: Planned, slots: int = 1) -> Scene:
    async def play() -> Scene:
        scene = Scene(slots)
        await scene.play(*plans)
        return scene

    return still(play)


def still(play: Callable[[], Coroutine[Any, Any, Scene]]) -> Scene:
    """What comes of it, without waiting."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(play())


def test_calls_of_one_server_wait_for_each_other() -> None:
    scene = played(Planned("a", 0, 5), Planned("b", 1, 5), Planned("c", 2, 5))

    assert (scene.most, "".join(scene.said)) == (1, "abc")
    assert [round(to - since) for since, to in scene.waits] == [0, 4, 8]


def test_the_place_is_told_when_it_changes() -> None:
    scene = played(Planned("a", 0, 5), Planned("b", 1, 5), Planned("c", 2, 5))

    places = [[(round(at, 1), place) for at, place in told] for told in scene.told]
    assert places == [[], [(1.1, 1)], [(2.1, 2), (5.0, 1)]]


def test_a_message_cuts_a_follow_up_off_and_does_not_wait() -> None:
    scene = played(Planned("a", 0, 60, follows=True), Planned("b", 1, 5))

    assert "".join(scene.said) == "aba"
    assert scene.waits == [(scene.waits[0][0],) * 2]
    assert scene.told == [[]]


def test_a_follow_up_that_gave_way_comes_back_when_nobody_was_there_for_a_while() -> None:
    scene = played(
        Planned("a", 0, 60, follows=True),
        Planned("b", 1, 5),
        Planned("b", 6 + QUIET_SECONDS, 5),
    )

    [(_, cut), (again, _)] = scene.follow_ups
    assert (round(cut, 2), round(again, 2)) == (1, round(11 + 3 * QUIET_SECONDS, 2))


def test_follow_ups_run_one_after_another_however_many_slots_there_are() -> None:
    scene = played(*(Planned(s, 0, 5, follows=True) for s in "abc"), slots=4)

    assert scene.most == 1


def test_a_follow_up_keeps_its_slot_where_another_one_is_free() -> None:
    scene = played(Planned("a", 0, 60, follows=True), Planned("b", 1, 5), slots=2)

    assert "".join(scene.said) == "ab"


def test_a_call_that_is_asked_anew_keeps_its_slot() -> None:
    scene = played(Planned("a", 0, 5), Planned("b", 1, 5, anew=3), Planned("c", 2, 5))

    assert (scene.most, "".join(scene.said)) == (1, "abc")
    assert [round(to - since, 3) for since, to in scene.waits] == [0, 4, 0, 0, 0, 8.75]


def test_a_slot_that_is_kept_for_nothing_is_given_back() -> None:
    leaves = Planned("b", 1, 5, anew=3, end="cancel", until=4.1)
    scene = played(Planned("a", 0, 5), leaves, Planned("c", 2, 5))

    assert "".join(scene.said) == "ac"
    assert [round(to - since, 3) for since, to in scene.waits] == [0, 4, 3.1]


def test_a_call_that_is_to_halt_leaves_the_line_at_once() -> None:
    scene = played(Planned("a", 0, 60), Planned("b", 1, 5, end="halt", until=2), Planned("c", 2, 5))

    assert "".join(scene.said) == "ac"
    assert [round(to - since) for since, to in scene.waits] == [0, 2, 58]


PLANS = st.lists(
    st.builds(
        Planned,
        session=st.sampled_from("abcd"),
        at=st.integers(0, 20).map(float),
        lasts=st.integers(1, 9).map(lambda n: n / 2 + 0.01),
        follows=st.booleans(),
        end=st.sampled_from(["cancel", "halt", None]),
        until=st.integers(0, 12).map(lambda n: n + 0.005),
        anew=st.integers(0, 2),
    ),
    max_size=25,
)


@given(plans=PLANS, slots=st.integers(1, 3))
def test_whatever_becomes_of_calls_no_slot_is_lost_and_nobody_waits_for_a_follow_up(
    plans: list[Planned], slots: int
) -> None:
    async def play() -> Scene:
        scene = Scene(slots)
        await scene.play(*plans)
        await scene.play(*(Planned("z", 0, 1) for _ in range(slots)))  # all slots, at once
        return scene

    scene = still(play)

    assert scene.most <= slots
    assert all(since == to for since, to in scene.waits[-slots:])
    for start, end in scene.follow_ups:
        for since, to in scene.waits:
            overlap = min(end, to) - max(start, since)
            assert overlap < 0.001, (start, end, since, to)
    for told in scene.told:
        for (before, one), (after, other) in pairwise(told):
            assert one != other
            assert after - before >= TELL_SECONDS - MOMENT
