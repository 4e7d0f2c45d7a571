"""Output of a running tool as deltas: when, how much, and without secrets."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from navi.adapters.system import SystemClock
from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.application.agent.show_output import (
    LATER_SLOT,
    LATEST,
    MAX_DELTA,
    SHOWN_IN_FULL,
    SLOT,
    ShownOutput,
)
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.events import ToolOutputDelta
from navi.domain.vocabulary.ids import CallId

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105
CALL = CallId("call_00000000000a")


class Log:
    """Takes deltas, with the time of each."""

    def __init__(self) -> None:
        self.deltas: list[ToolOutputDelta] = []
        self.times: list[float] = []

    async def __call__(self, delta: ToolOutputDelta) -> None:
        self.deltas.append(delta)
        self.times.append(asyncio.get_running_loop().time())

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(delta.text for delta in self.deltas)


async def shown(*pieces: str, feed: Callable[[ShownOutput, str], None] = ShownOutput.add) -> Log:
    """What is logged of pieces that come one loop turn after the other."""
    log = Log()
    output = ShownOutput(CALL, Secrets({"SECRET": SECRET}), SystemClock())
    running = asyncio.create_task(output.run(log))
    for piece in pieces:
        feed(output, piece)
        await asyncio.sleep(0)
    output.end()
    await running
    return log


async def test_all_output_is_shown_in_order() -> None:
    log = await shown("a", "b", "c")

    assert log.text == "abc"
    assert {delta.call_id for delta in log.deltas} == {CALL}


async def test_deltas_come_at_most_once_a_slot() -> None:
    log = await shown(*("x" * MAX_DELTA for _ in range(2)))

    gaps = [late - early for early, late in zip(log.times, log.times[1:], strict=False)]
    assert gaps
    assert min(gaps) >= SLOT * 0.9  # clocks round


async def test_nothing_is_logged_for_a_silent_tool() -> None:
    assert (await shown()).deltas == []


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
async def test_a_secret_is_masked_wherever_it_is_cut(cut: int) -> None:
    log = await shown(f"key {SECRET[:cut]}", f"{SECRET[cut:]} end")

    assert "hunter2-hunter2" not in log.text
    assert log.text.endswith(" end")
    assert any("SECRET" in (delta.masked or ()) for delta in log.deltas)


class LoopClock:
    """The port ``Clock``, by the time of the loop."""

    def now(self) -> datetime:
        return datetime(2026, 11, 24, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def test_a_secret_is_masked_whose_beginning_ends_what_takes_the_place_of_more() -> None:
    """More than is shown comes while a delta waits for its slot: the end of that is kept."""

    async def play() -> Log:
        log = Log()
        output = ShownOutput(CALL, Secrets({"SECRET": SECRET}), LoopClock())
        running = asyncio.create_task(output.run(log))
        while len(log.text) < SHOWN_IN_FULL:
            output.add("x" * MAX_DELTA)
            await asyncio.sleep(SLOT)
        output.add("y" * (LATEST + LATEST // 2))
        await asyncio.sleep(SLOT)  # it waits for the slot, which is a second long by now
        before = len(log.deltas)
        output.add("z" * LATEST + SECRET[:-3])
        assert len(log.deltas) == before
        await asyncio.sleep(LATER_SLOT)
        output.add(SECRET[-3:] + " end")
        output.end()
        await running
        return log

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        log = runner.run(play())

    assert SECRET[:-3] not in log.text
    assert log.text.endswith(" end")
    assert any("SECRET" in (delta.masked or ()) for delta in log.deltas)


async def test_of_a_flood_the_latest_is_shown() -> None:
    log = await shown(*(f"{number:07}\n" * 10_000 for number in range(100)))

    assert all(len(delta.text) <= MAX_DELTA for delta in log.deltas)
    assert len(log.text) < SHOWN_IN_FULL + MAX_DELTA
    assert log.text.endswith("0000099\n" * (LATEST // 8))


async def test_what_postgres_does_not_take_is_replaced() -> None:
    assert (await shown("a\0b\ud800c")).text == "a\ufffdb\ufffdc"
