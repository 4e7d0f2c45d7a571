"""Keep a number of nodes running: start them again when they end, replace them one after another."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog
from msgspec import Struct

from navi.adapters.embedded.run_record import ProcessRecord
from navi.adapters.processes.channel import Ready
from navi.adapters.processes.restarts import Restarts
from navi.domain.vocabulary.errors import NaviError
from navi.domain.vocabulary.event_codec import format_at
from navi.ports.clock import Clock
from navi.race import race

READY_SECONDS = 120.0  # for a process to take work, counted anew whenever it says that it migrates
TELL_AGAIN_SECONDS = 5.0  # between two tries
LEAVE_SECONDS = 30.0  # for a process to end, besides what its turns may take

log = structlog.get_logger()


class NodeProcess(Protocol):
    """A process that runs a node."""

    @property
    def pid(self) -> int: ...

    @property
    def heard(self) -> float:
        """When it was started, or last said that it migrates: seconds of the loop's clock."""
        ...

    async def ready(self) -> Ready | None:
        """Wait until it takes work; None where it ended instead."""
        ...

    async def ended(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        ...

    def drain(self, *, succeeded: bool) -> None:
        """Tell it to end as at SIGTERM; ``succeeded`` as in ``Drain``."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Launch(Protocol):
    """Starts the processes of seats."""

    async def start(self, number: int, *, takes_over: bool) -> NodeProcess:
        """Start one.

        Args:
            takes_over: whether it gets the sockets of the process there now, which goes on meanwhile.

        Raises:
            NaviError: there is no socket for it.
            OSError: the machine has no room for another process, or does not find its program.
        """
        ...

    def ended(self, number: int) -> None:
        """The process of a seat has ended by itself: nobody serves on its sockets."""
        ...


class ProcessesFailed(NaviError):
    """The service cannot go on; the message says why."""


class _Begun(Struct, frozen=True, kw_only=True):
    """What came of the start of a process.

    Attributes:
        process: None where there was not even one.
        ready: None where it does not take work; ``how`` says why, and it has ended.
    """

    process: NodeProcess | None
    ready: Ready | None = None
    how: str = ""


class _Seat:
    """One of the processes that there are to be."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: NodeProcess | None = None
        self.node: str | None = None
        self.since: str | None = None
        self.began = 0.0
        self.restarts = Restarts()
        self.changing = asyncio.Lock()
        self.replaced = asyncio.Event()


class Supervisor:
    """The processes of one service.

    Args:
        drain_seconds: what running turns have when a process is to end.
        changed: is told the processes whenever something of them has changed since the start; where
            it raises OSError they go on, and it is told again.
    """

    def __init__(
        self,
        count: int,
        launch: Launch,
        clock: Clock,
        *,
        drain_seconds: float,
        changed: Callable[[Sequence[ProcessRecord]], Awaitable[None]],
    ) -> None:
        self._seats = [_Seat(number) for number in range(1, count + 1)]
        self._launch = launch
        self._clock = clock
        self._leave_seconds = drain_seconds + LEAVE_SECONDS
        self._changed = changed
        self._living: set[NodeProcess] = set()  # those that end are among them until they have
        self._untold = asyncio.Event()
        self._keepers: list[asyncio.Task[None]] = []
        self._replacing: asyncio.Task[None] | None = None

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """All of them, as they are now."""
        return tuple(
            ProcessRecord(
                process=seat.number,
                pid=None if seat.process is None else seat.process.pid,
                node=seat.node,
                since=seat.since,
                restarts=seat.restarts.total,
            )
            for seat in self._seats
        )

    async def start(self) -> Sequence[Ready]:
        """Start all, side by side; what each says once it takes work.

        Raises:
            ProcessesFailed: one ended instead; the others have ended as well.
        """
        found = await asyncio.gather(*(self._begin(seat, takes_over=False) for seat in self._seats))
        for seat, begun in zip(self._seats, found, strict=True):
            if begun.process is None or begun.ready is None:
                await self.stop()
                raise ProcessesFailed(
                    f"process {seat.number} did not start ({begun.how}); what it said stands above"
                )
            self._put(seat, begun.process, begun.ready)
        self._keepers = [
            asyncio.create_task(self._keep(seat), name=f"keep process {seat.number}")
            for seat in self._seats
        ]
        self._keepers.append(asyncio.create_task(self._tell_again(), name="tell again"))
        return [begun.ready for begun in found if begun.ready is not None]

    async def keep(self) -> None:
        """Start again what ends; endless, ends by cancellation.

        Raises:
            ProcessesFailed: none serves, and each has ended again and again.
        """
        await asyncio.gather(*self._keepers)

    def replace(self) -> None:
        """Begin to replace every process by a new one, one after another; nothing where that goes on."""
        if self._replacing is not None and not self._replacing.done():
            log.info("restart_under_way")
            return
        self._replacing = asyncio.create_task(self._replace_all(), name="replace processes")

    async def stop(self) -> None:
        """Have all drain, and wait for their ends; who takes too long is killed."""
        tasks = [*self._keepers, *([] if self._replacing is None else [self._replacing])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(
            *(self._end(process, succeeded=False) for process in tuple(self._living))
        )

    # --- one process ---

    async def _begin(self, seat: _Seat, *, takes_over: bool) -> _Begun:
        """Start a process, and wait until it takes work or has ended."""
        try:
            process = await self._launch.start(seat.number, takes_over=takes_over)
        except (NaviError, OSError) as error:
            return _Begun(process=None, how=f"cannot be started: {error}")
        self._living.add(process)
        ready = await _ready_in_time(process)
        if ready is not None:
            return _Begun(process=process, ready=ready)
        process.kill()
        status = await process.ended()
        self._living.discard(process)
        return _Begun(process=process, how=words_of(status))

    def _put(self, seat: _Seat, process: NodeProcess, ready: Ready) -> None:
        seat.process, seat.node = process, ready.node
        seat.since = format_at(self._clock.now())
        seat.began = asyncio.get_running_loop().time()

    async def _end(self, process: NodeProcess, *, succeeded: bool) -> None:
        process.drain(succeeded=succeeded)
        try:
            async with asyncio.timeout(self._leave_seconds):
                await process.ended()
        except TimeoutError:
            log.warning("process_killed", pid=process.pid, seconds=self._leave_seconds)
            process.kill()
            await process.ended()
        self._living.discard(process)

    # --- keeping ---

    async def _keep(self, seat: _Seat) -> None:
        while True:
            # Before the look at who is there: a replacement that came while this one waited its turn
            # is seen by that look, and must not end the wait for the new process.
            seat.replaced.clear()
            process = seat.process
            assert process is not None  # noqa: S101 - `start` and `_again` put one there
            await race(process.ended(), _happened(seat.replaced))
            async with seat.changing:
                if seat.process is process:
                    await self._again(seat, process)

    async def _again(self, seat: _Seat, process: NodeProcess) -> None:
        """Start the process of a seat again that has ended."""
        how, pid = words_of(await process.ended()), process.pid
        self._living.discard(process)
        seat.process = seat.node = seat.since = None
        lived = asyncio.get_running_loop().time() - seat.began
        while True:
            self._launch.ended(seat.number)
            seat.restarts = seat.restarts.ended(lived=lived)
            which = {} if pid is None else {"pid": pid}
            log.warning("process_ended", process=seat.number, how=how, **which)
            await self._tell()
            if self._in_vain():
                raise ProcessesFailed(
                    f"process {seat.number} has ended {seat.restarts.quick} times in a row, soon "
                    f"after its start ({how}); the log says more. Nothing is lost: "
                    "what was running goes on at the next start"
                )
            await asyncio.sleep(seat.restarts.pause)
            begun = await self._begin(seat, takes_over=False)
            if begun.process is not None and begun.ready is not None:
                self._put(seat, begun.process, begun.ready)
                log.info("process_started_again", process=seat.number, pid=begun.process.pid)
                await self._tell()
                return
            how, pid = begun.how, None if begun.process is None else begun.process.pid
            lived = 0.0

    def _in_vain(self) -> bool:
        # What keeps one from starting may pass, as an outage of Postgres does, which those that run wait
        # out: they must not end for it.
        return all(seat.process is None and seat.restarts.in_vain for seat in self._seats)

    # --- replacing ---

    async def _replace_all(self) -> None:
        log.info("restarting", processes=len(self._seats))
        for seat in self._seats:
            async with seat.changing:
                old = seat.process
                begun = await self._begin(seat, takes_over=old is not None)
                if begun.process is None or begun.ready is None:
                    # What runs, runs: a new version that does not start must not take the service down.
                    log.error("restart_failed", process=seat.number, how=begun.how)
                    return
                self._put(seat, begun.process, begun.ready)
                seat.replaced.set()
            await self._tell()
            if old is not None:
                await self._end(old, succeeded=True)
        log.info("restarted", processes=len(self._seats))

    # --- telling ---

    async def _tell(self) -> None:
        try:
            await self._changed(self.processes)
        except OSError as error:  # a full disk: commands see what was, and the service goes on
            if not self._untold.is_set():
                log.warning("processes_not_recorded", reason=str(error))
            self._untold.set()
        else:
            self._untold.clear()

    async def _tell_again(self) -> None:
        """What could not be told, until it can."""
        while True:
            await self._untold.wait()
            await asyncio.sleep(TELL_AGAIN_SECONDS)
            await self._tell()


async def _ready_in_time(process: NodeProcess) -> Ready | None:
    """What a process says once it takes work; None where it ended, or was silent for too long."""
    while (until := process.heard + READY_SECONDS) > asyncio.get_running_loop().time():
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                return await process.ready()
    return None


async def _happened(event: asyncio.Event) -> int:
    await event.wait()
    return 0


def words_of(status: int) -> str:
    """An exit status for people."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
