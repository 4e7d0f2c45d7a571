"""Which process is started, again or in another's place, and when no more."""

import asyncio
import errno
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from navi.adapters.embedded.run_record import ProcessRecord
from navi.adapters.processes.channel import Ready
from navi.adapters.processes.restarts import LONGEST_PAUSE, MOST_QUICK, STEADY_SECONDS, Restarts
from navi.adapters.processes.supervisor import (
    LEAVE_SECONDS,
    READY_SECONDS,
    TELL_AGAIN_SECONDS,
    ProcessesFailed,
    Supervisor,
)
from navi.adapters.virtual_time_loop import VirtualTimeLoop
from tests.support.manual_clock import ManualClock

DRAIN_SECONDS = 30.0
LONG_OUTAGE = 3 * 3600.0  # seconds: some thousand starts
SINCE = "2026-11-20T12:00:00.000000Z"


class Process:
    """A process that a test ends; what happens to it and the others goes into ``story``."""

    def __init__(self, world: "World", number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.serves: asyncio.Future[Ready | None] = asyncio.get_running_loop().create_future()
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.hangs = False
        self.heard = asyncio.get_running_loop().time()
        self._world = world

    async def ready(self) -> Ready | None:
        return await asyncio.shield(self.serves)

    async def ended(self) -> int:
        return await asyncio.shield(self.status)

    def drain(self, *, succeeded: bool) -> None:
        if self.status.done():
            return  # there is nobody who is told
        self._world.story.append(f"{self.pid} drains{', succeeded' if succeeded else ''}")
        if not self.hangs:
            self.end(0)

    def kill(self) -> None:
        if not self.status.done():
            self._world.story.append(f"{self.pid} killed")
            self.end(-signal.SIGKILL)

    def serve(self) -> None:
        """Take work."""
        self._world.story.append(f"{self.pid} serves")
        self.serves.set_result(
            Ready(
                node=f"node {self.pid}",
                banner="",
                model_backend="demo",
                model_name="demo",
                model_window=None,
                model_slots=None,
            )
        )

    def end(self, status: int) -> None:
        """End by itself."""
        if not self.serves.done():
            self.serves.set_result(None)
        self.status.set_result(status)


class World:
    """The processes of a service, numbered as they are started."""

    def __init__(self, count: int) -> None:
        self.story: list[str] = []
        self.processes: list[Process] = []
        self.at_start: Callable[[Process], None] = Process.serve
        self.start_failure: OSError | None = None
        self.tell_failure: OSError | None = None
        self.told: Sequence[ProcessRecord] = ()
        self.supervisor = Supervisor(
            count, self, ManualClock(), drain_seconds=DRAIN_SECONDS, changed=self.changed
        )

    async def start(self, number: int, *, takes_over: bool) -> Process:
        if self.start_failure is not None:
            self.story.append(f"none starts at {number}")
            raise self.start_failure
        process = Process(self, number, len(self.processes) + 1)
        self.processes.append(process)
        self.story.append(f"{process.pid} starts at {number}{', takes over' if takes_over else ''}")
        self.at_start(process)
        return process

    def ended(self, number: int) -> None:
        self.story.append(f"{number} ended")

    async def changed(self, processes: Sequence[ProcessRecord]) -> None:
        if self.tell_failure is not None:
            raise self.tell_failure
        self.told = processes


async def settled() -> None:
    """Let everything happen that needs no time."""
    for _ in range(50):
        await asyncio.sleep(0)


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a loop whose time passes when all wait."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(test())


async def started(count: int) -> World:
    world = World(count)
    await world.supervisor.start()
    world.story.clear()
    return world


def test_a_process_that_ends_by_itself_is_started_again_on_sockets_of_its_own() -> None:
    async def test() -> None:
        world = await started(2)

        world.processes[0].end(-signal.SIGKILL)
        await asyncio.sleep(1)

        assert world.story == ["1 ended", "3 starts at 1", "3 serves"]
        assert list(world.told) == [
            ProcessRecord(process=1, pid=3, node="node 3", since=SINCE, restarts=1),
            ProcessRecord(process=2, pid=2, node="node 2", since=SINCE, restarts=0),
        ]
        await world.supervisor.stop()

    in_virtual_time(test)


def test_one_that_ends_again_and_again_ends_the_service_and_says_how() -> None:
    async def test() -> None:
        world = await started(1)
        keeping = asyncio.ensure_future(world.supervisor.keep())
        world.at_start = lambda process: process.end(3)

        world.processes[0].end(3)
        with pytest.raises(ProcessesFailed) as failure:
            await keeping

        assert len(world.processes) == 1 + MOST_QUICK
        assert str(failure.value).startswith(
            f"process 1 has ended {MOST_QUICK + 1} times in a row, soon after its start (exit status 3)"
        )
        await world.supervisor.stop()

    in_virtual_time(test)


def test_one_that_ends_again_and_again_is_tried_on_while_another_serves() -> None:
    async def test() -> None:
        world = await started(2)
        keeping = asyncio.ensure_future(world.supervisor.keep())
        world.at_start = lambda process: process.end(1)  # as while Postgres is away

        world.processes[0].end(1)
        await asyncio.sleep(LONG_OUTAGE)

        assert not keeping.done()
        assert [one.pid for one in world.supervisor.processes] == [None, 2]
        assert len(world.processes) > LONG_OUTAGE / LONGEST_PAUSE
        world.at_start = Process.serve
        await asyncio.sleep(LONGEST_PAUSE)
        back = len(world.processes)
        assert [one.pid for one in world.supervisor.processes] == [back, 2]
        await world.supervisor.stop()
        await asyncio.wait({keeping})

    in_virtual_time(test)


def test_where_none_serves_and_all_end_again_and_again_the_service_ends() -> None:
    async def test() -> None:
        world = await started(2)
        keeping = asyncio.ensure_future(world.supervisor.keep())
        world.at_start = lambda process: process.end(1)

        world.processes[0].end(1)
        await asyncio.sleep(LONG_OUTAGE)
        world.processes[1].end(1)
        begun, seen = asyncio.get_running_loop().time(), len(world.processes)
        with pytest.raises(ProcessesFailed, match=r"process [12] has ended"):
            await keeping

        # The other one has its own tries: it could have been about to serve.
        assert len([one for one in world.processes[seen:] if one.number == 2]) == MOST_QUICK
        assert asyncio.get_running_loop().time() - begun < STEADY_SECONDS
        await world.supervisor.stop()

    in_virtual_time(test)


def test_pauses_grow_and_are_short_again_for_one_that_ran_well() -> None:
    restarts = Restarts()
    ends: list[tuple[float, bool]] = []
    for lived in (1.0, 1.0, 1.0, STEADY_SECONDS, *[1.0] * (MOST_QUICK + 2)):
        restarts = restarts.ended(lived=lived)
        ends.append((restarts.pause, restarts.in_vain))

    pauses = [0.1, 0.2, 0.4, 0.1, 0.2, 0.4, 0.8, 1.6, *[LONGEST_PAUSE] * 3]
    assert [pause for pause, _ in ends] == pauses
    assert [in_vain for _, in_vain in ends] == [False] * 8 + [True] * 3
    assert restarts.total == 4 + MOST_QUICK + 2


def test_processes_are_replaced_one_after_another_the_new_one_first() -> None:
    async def test() -> None:
        world = await started(2)

        world.supervisor.replace()
        world.supervisor.replace()  # it goes on already
        await settled()

        assert world.story == [
            "3 starts at 1, takes over",
            "3 serves",
            "1 drains, succeeded",
            "4 starts at 2, takes over",
            "4 serves",
            "2 drains, succeeded",
        ]
        assert [one.restarts for one in world.supervisor.processes] == [0, 0]
        await world.supervisor.stop()

    in_virtual_time(test)


def test_a_new_process_that_does_not_come_up_leaves_the_old_ones_alone() -> None:
    async def test() -> None:
        world = await started(2)
        world.at_start = lambda process: None

        world.supervisor.replace()
        await asyncio.sleep(READY_SECONDS + 1)

        assert world.story == ["3 starts at 1, takes over", "3 killed"]
        assert [one.pid for one in world.supervisor.processes] == [1, 2]
        await world.supervisor.stop()

    in_virtual_time(test)


def test_one_that_migrates_is_waited_for_as_long_as_it_says_so() -> None:
    async def test() -> None:
        world = await started(1)
        world.at_start = lambda process: None

        world.supervisor.replace()
        for _ in range(10):
            await asyncio.sleep(READY_SECONDS - 1)
            world.processes[1].heard = asyncio.get_running_loop().time()
        assert world.story == ["2 starts at 1, takes over"]
        await asyncio.sleep(READY_SECONDS + 1)

        assert world.story == ["2 starts at 1, takes over", "2 killed"]
        await world.supervisor.stop()

    in_virtual_time(test)


def test_a_new_process_that_dies_while_the_old_one_drains_is_started_again() -> None:
    async def test() -> None:
        world = await started(1)
        world.processes[0].hangs = True
        world.supervisor.replace()
        await settled()

        world.processes[1].end(1)
        await asyncio.sleep(1)

        assert world.story[-4:] == [
            "1 drains, succeeded",
            "1 ended",
            "3 starts at 1",
            "3 serves",
        ]
        await asyncio.sleep(DRAIN_SECONDS + LEAVE_SECONDS)
        assert world.story[-1] == "1 killed"
        await world.supervisor.stop()

    in_virtual_time(test)


def test_one_that_dies_during_its_replacement_leaves_the_next_replacement_possible() -> None:
    async def test() -> None:
        world = await started(1)
        world.at_start = lambda process: None
        world.supervisor.replace()
        await settled()

        world.processes[0].end(1)
        await settled()
        world.processes[1].serve()
        await settled()
        world.at_start = Process.serve
        world.supervisor.replace()
        await settled()

        assert [one.pid for one in world.supervisor.processes] == [3]
        world.processes[2].end(1)
        await asyncio.sleep(1)
        assert [(one.pid, one.restarts) for one in world.supervisor.processes] == [(4, 1)]
        await world.supervisor.stop()

    in_virtual_time(test)


def test_a_full_disk_keeps_nobody_from_being_started_again_and_replaced() -> None:
    async def test() -> None:
        world = await started(1)
        keeping = asyncio.ensure_future(world.supervisor.keep())
        world.tell_failure = OSError(errno.ENOSPC, "No space left on device")

        world.processes[0].end(1)
        await asyncio.sleep(1)
        world.supervisor.replace()
        await settled()

        assert world.story[-2:] == ["3 serves", "2 drains, succeeded"]
        assert not keeping.done()
        world.tell_failure = None
        await asyncio.sleep(TELL_AGAIN_SECONDS)
        assert [one.pid for one in world.told] == [3]
        await world.supervisor.stop()
        await asyncio.wait({keeping})

    in_virtual_time(test)


def test_a_machine_without_room_for_a_process_is_asked_again() -> None:
    async def test() -> None:
        world = await started(2)
        keeping = asyncio.ensure_future(world.supervisor.keep())
        world.start_failure = OSError(errno.EAGAIN, "Resource temporarily unavailable")

        world.supervisor.replace()
        await settled()
        assert [one.pid for one in world.supervisor.processes] == [1, 2]
        world.processes[0].end(1)
        await asyncio.sleep(0.5)
        world.start_failure = None
        await asyncio.sleep(1)

        assert world.story == [
            "none starts at 1",  # the replacement, which goes no further
            "1 ended",
            "none starts at 1",
            "1 ended",
            "none starts at 1",
            "1 ended",
            "3 starts at 1",
            "3 serves",
        ]
        assert [one.restarts for one in world.supervisor.processes] == [3, 0]
        assert not keeping.done()
        await world.supervisor.stop()
        await asyncio.wait({keeping})

    in_virtual_time(test)


def test_all_drain_at_the_end_and_who_takes_too_long_is_killed() -> None:
    async def test() -> None:
        world = await started(2)
        world.processes[1].hangs = True

        await world.supervisor.stop()

        assert world.story == ["1 drains", "2 drains", "2 killed"] or world.story == [
            "2 drains",
            "1 drains",
            "2 killed",
        ]

    in_virtual_time(test)


def test_a_service_of_which_one_does_not_start_does_not_start() -> None:
    async def test() -> None:
        world = World(2)
        world.at_start = lambda process: process.serve() if process.number == 1 else process.end(2)

        with pytest.raises(ProcessesFailed, match=r"process 2 did not start \(exit status 2\)"):
            await world.supervisor.start()

        assert world.story[-1] == "1 drains"

    in_virtual_time(test)
