"""Project the log into read models: one follower for each projection and partition."""

import asyncio
from collections.abc import Sequence
from typing import Any

import structlog

from navi.application.followers.fold_batch import FoldBatch, Held, Reached
from navi.domain.reading.projection import Projection
from navi.domain.vocabulary.errors import Unavailable
from navi.log_error import log_error
from navi.ports.clock import Clock
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_model_builds import ReadModelBuilds
from navi.ports.read_models import Build

log = structlog.get_logger()

BATCH_EVENTS = 500  # some 10 ms of folding between two awaits
# Reads fold the tail themselves, so a read model may be late; a commit a turn's step would be waste.
BATCH_SECONDS = 0.25
IDLE_SECONDS = 30.0  # between two looks at a log that says nothing
HELD_SECONDS = 2.0  # between two looks at a checkpoint that another process holds
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)  # after the 1st, 2nd, ... failure in a row; the last goes on
BATCHES_AT_ONCE = 2  # each takes a connection of the pool for its transaction, and one to read
LOOK_SECONDS = 2.0  # between two looks for something to build anew
HOLDER_SECONDS = 0.05  # between two tries where a process holds what is being waited for
USE_SECONDS = 60.0  # between two words that a process of this version is at work
UNUSED_SECONDS = 86_400.0  # a day, in which somebody may go back to the version before
DROP_ROWS = 1000  # in a transaction: some 10 ms


class Projector:
    """Folds new events into the read models, in batches, each one transaction.

    A read model that is to be built anew is made beside the one that serves, and then switched. Any
    number of processes may run a projector: for each checkpoint one of them gets its turn.
    """

    def __init__(
        self,
        log: PartitionedLog,
        read_models: ReadModelBuilds,
        projections: Sequence[Projection[Any]],
        clock: Clock,
        *,
        batch_events: int = BATCH_EVENTS,
        rest: float = 0.0,
        unused_seconds: float = UNUSED_SECONDS,
    ) -> None:
        """Put it together.

        Args:
            rest: after a batch of a read model that is far behind, as a share of the time that it
                took, so that what else the process has to do goes on.
            unused_seconds: after that long a version that no process runs any more is thrown away.
        """
        self._log = log
        self._read_models = read_models
        self._projections = tuple(projections)
        self._clock = clock
        self._batch_events = batch_events
        self._rest = rest
        self._unused_seconds = unused_seconds
        self._batches = FoldBatch(log, read_models, batch_events=batch_events)
        self._slots = asyncio.Semaphore(BATCHES_AT_ONCE)
        self._serving: dict[str, Build] = {}

    async def run(self) -> None:
        """Follow the log until cancelled; a failing batch is retried."""
        async with asyncio.TaskGroup() as tasks:
            for partition in range(self._log.partitions):
                for projection in self._projections:
                    tasks.create_task(
                        self._follow(projection, partition),
                        name=f"project-{projection.name}-{partition}",
                    )
            tasks.create_task(self._look_after_builds(), name="project-builds")

    async def caught_up(self) -> None:
        """Catch up every projection with the log, whether ``run`` runs or not.

        Waits without end for a process that holds a checkpoint: the caller sets a deadline.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        for projection in self._projections:
            for partition in range(self._log.partitions):
                page = await self._log.read_all(partition, after=0, limit=1)
                while not await self._reaches(projection, partition, head=page.head):
                    pass
            await self._go_live(projection)

    async def build(self, projection: Projection[Any], build: Build) -> None:
        """Complete a build and switch to it.

        Returns where another process has done so, or has retired it. Waits without end for one that
        works on it: the caller sets a deadline.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        while True:
            reached = [
                await self._build_partition(projection, build, partition)
                for partition in range(self._log.partitions)
            ]
            if all(reached) and await self._read_models.switch(projection.name, build.number):
                log.info("projection_built", projection=projection.name, build=build.number)
                break
            if not await self._is_under_way(build):
                break
            await asyncio.sleep(HOLDER_SECONDS)
        self._serving.pop(projection.name, None)

    async def _build_partition(
        self, projection: Projection[Any], build: Build, partition: int
    ) -> bool:
        """Fold a partition up to its head; False if another process does."""
        while True:
            started = self._clock.monotonic()
            match await self._batches.next(projection, build, partition):
                case Held():
                    return False
                case Reached(position=position, head=head) if position >= head:
                    return True
                case Reached():
                    spent = self._clock.monotonic() - started
                    await asyncio.sleep(spent * self._rest)

    async def _is_under_way(self, build: Build) -> bool:
        builds = await self._read_models.builds([build.projection])
        return any(one.number == build.number and one.state == "building" for one in builds)

    # --- what serves ---

    async def _reaches(self, projection: Projection[Any], partition: int, *, head: int) -> bool:
        match await self._advance(projection, partition):
            case Reached(position=position):
                return position >= head
            case Held():
                # The holder is another process, which cannot wake this one.
                await asyncio.sleep(HOLDER_SECONDS)
                return False

    async def _follow(self, projection: Projection[Any], partition: int) -> None:
        failures = 0
        while True:
            try:
                await self._advance_and_wait(projection, partition)
                failures = 0
            except Exception as error:  # noqa: BLE001 - the border of a follower: it must go on
                failures += 1
                _report(error, failures, projection=projection.name, partition=partition)
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1])

    async def _advance_and_wait(self, projection: Projection[Any], partition: int) -> None:
        """Fold one batch, then wait for more events."""
        started = self._clock.monotonic()
        match await self._advance(projection, partition):
            case Reached(position=position, head=head) if head - position > self._batch_events:
                spent = self._clock.monotonic() - started
                await asyncio.sleep(spent * self._rest)
            case Reached(position=position):
                idle = IDLE_SECONDS if await self._go_live(projection) else HELD_SECONDS
                spent = self._clock.monotonic() - started
                await asyncio.sleep(max(0.0, BATCH_SECONDS - spent))
                await self._log.wait_beyond(partition, position, timeout=idle)
            case Held():
                await asyncio.sleep(HELD_SECONDS)

    async def _advance(self, projection: Projection[Any], partition: int) -> Reached | Held:
        """Fold the next batch into the serving build."""
        name = projection.name
        build = self._serving.get(name)
        if build is None:
            build = await self._read_models.open_build(name, projection.version)
            self._serving[name] = build
        async with self._slots:
            reached = await self._batches.next(projection, build, partition)
        if isinstance(reached, Held) and self._serving.get(name) is build:
            del self._serving[name]  # held, or another one serves now
        return reached

    async def _go_live(self, projection: Projection[Any]) -> bool:
        """Mark the first build as live once it is near every head; whether it is live."""
        build = self._serving.get(projection.name)
        if build is None or build.state == "live":
            return True
        builds = await self._read_models.builds([projection.name])
        positions = {one.number: one.positions for one in builds}.get(build.number, {})
        for partition in range(self._log.partitions):
            page = await self._log.read_all(partition, after=0, limit=1)
            if page.head - positions.get(partition, 0) > self._batch_events:
                return False
        self._serving.pop(projection.name, None)
        return await self._read_models.switch(projection.name, build.number)

    # --- what is built beside it, and what is not needed any more ---

    async def _look_after_builds(self) -> None:
        failures = 0
        said_at: float | None = None
        while True:
            try:
                now = self._clock.monotonic()
                if said_at is None or now - said_at >= USE_SECONDS:
                    await self._say_in_use()
                    said_at = now
                await self._build_what_is_asked_for()
                while await self._read_models.drop_retired(rows=DROP_ROWS):  # noqa: ASYNC110 - a pause, not a wait
                    await asyncio.sleep(HOLDER_SECONDS)
                failures = 0
            except Exception as error:  # noqa: BLE001 - the border of a follower: it must go on
                failures += 1
                _report(error, failures)
            await asyncio.sleep(LOOK_SECONDS)

    async def _build_what_is_asked_for(self) -> None:
        """Make requested builds one by one, so that the serving ones keep up."""
        found = await self._read_models.builds([one.name for one in self._projections])
        live = {(one.projection, one.version) for one in found if one.state == "live"}
        for projection in self._projections:
            for build in found:
                own = (build.projection, build.version) == (projection.name, projection.version)
                if own and build.state == "building" and (projection.name, build.version) in live:
                    await self.build(projection, build)

    async def _say_in_use(self) -> None:
        for projection in self._projections:
            name, version = projection.name, projection.version
            await self._read_models.in_use(name, version)
            await self._read_models.retire_others(
                name, version, unused_seconds=self._unused_seconds
            )


def _report(error: Exception, failures: int, **where: str | int) -> None:
    stalled = log.bind(failures=failures, **where)
    if isinstance(error, Unavailable):
        stalled.warning("projection_stalled", reason=str(error))
        return
    log_error(stalled, "projection_stalled", error)
