"""Keep the read models near the head of the log: one follower for each projection and partition."""

import asyncio
import traceback
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import structlog
from msgspec import Struct

from navi.domain.errors import Unavailable
from navi.domain.ids import SessionId
from navi.domain.projection import Change, ListedProjection, Projection, Put
from navi.failpoints import failpoint
from navi.ports import (
    Clock,
    EventLog,
    Parked,
    ProjectionBatch,
    ReadModels,
    Recorded,
    SessionChanges,
    StoredState,
)

log = structlog.get_logger()

BATCH_EVENTS = 500  # some 10 ms of folding between two awaits
# Reads fold the tail themselves, so a read model may be late; a commit a turn's step would be waste.
BATCH_SECONDS = 0.25
IDLE_SECONDS = 30.0  # between two looks at a log that says nothing
HELD_SECONDS = 2.0  # between two looks at a checkpoint that another process holds
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)  # after the 1st, 2nd, ... failure in a row; the last goes on
BATCHES_AT_ONCE = 2  # each takes a connection of the pool for its transaction, and one to read
ERROR_LENGTH = 500  # characters of an error that are kept with a parked session


class Held(Struct, frozen=True):
    """Another process holds the checkpoint."""


class Reached(Struct, frozen=True, kw_only=True):
    """The read model is at ``position``; the partition's head was at ``head``."""

    position: int
    head: int


class Projector:
    """Folds what is new in the log into the read models, in batches, each one transaction.

    A session that a projection cannot fold is parked for that projection, and the others go on.
    Any number of processes may run one: for each checkpoint one of them gets its turn.
    """

    def __init__(
        self,
        log: EventLog,
        read_models: ReadModels,
        projections: Sequence[Projection[Any]],
        clock: Clock,
        *,
        batch_events: int = BATCH_EVENTS,
    ) -> None:
        self._log = log
        self._read_models = read_models
        self._projections = tuple(projections)
        self._clock = clock
        self._batch_events = batch_events
        self._slots = asyncio.Semaphore(BATCHES_AT_ONCE)

    async def run(self) -> None:
        """Follow the log until cancelled; survives whatever happens to a batch."""
        async with asyncio.TaskGroup() as tasks:
            for partition in range(self._log.partitions):
                for projection in self._projections:
                    tasks.create_task(
                        self._follow(projection, partition),
                        name=f"project-{projection.name}-{partition}",
                    )

    async def caught_up(self) -> None:
        """Bring every projection to where the log is now, whether ``run`` runs or not.

        Waits without end for a process that holds a checkpoint: the caller sets a deadline.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        for partition in range(self._log.partitions):
            page = await self._log.read_all(partition, after=0, limit=1)
            for projection in self._projections:
                await self._catch_up(projection, partition, head=page.head)

    async def _catch_up(self, projection: Projection[Any], partition: int, *, head: int) -> None:
        while True:
            match await self._advance(projection, partition):
                case Reached(position=position) if position >= head:
                    return
                case Reached():
                    continue
                case Held():
                    # The holder is another process, which cannot wake this one.
                    await asyncio.sleep(0.05)

    async def _follow(self, projection: Projection[Any], partition: int) -> None:
        failures = 0
        while True:
            try:
                await self._advance_and_wait(projection, partition)
                failures = 0
            except Exception as error:  # noqa: BLE001 - the border of a follower: it must go on
                failures += 1
                await _report(error, projection, partition, failures=failures)
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1])

    async def _advance_and_wait(self, projection: Projection[Any], partition: int) -> None:
        """One batch; then wait until the next one is worth while."""
        started = self._clock.monotonic()
        match await self._advance(projection, partition):
            case Reached(position=position, head=head) if head - position > self._batch_events:
                return
            case Reached(position=position):
                spent = self._clock.monotonic() - started
                await asyncio.sleep(max(0.0, BATCH_SECONDS - spent))
                await self._log.wait_beyond(partition, position, timeout=IDLE_SECONDS)
            case Held():
                await asyncio.sleep(HELD_SECONDS)

    async def _advance(self, projection: Projection[Any], partition: int) -> Reached | Held:
        """Fold the next batch in."""
        async with self._slots:
            async with self._read_models.begin(
                projection.name, projection.version, partition
            ) as batch:
                if batch is None:
                    return Held()
                page = await self._log.read_all(
                    partition, after=batch.position, limit=self._batch_events, deltas=False
                )
                reached = Reached(position=page.reached, head=page.head)
                if page.reached <= batch.position:
                    return reached
                await self._fold(projection, batch, page.rows, position=page.reached)
                await failpoint("projection.before_commit")
            await failpoint("projection.after_commit")
            return reached

    async def _fold(
        self,
        projection: Projection[Any],
        batch: ProjectionBatch,
        rows: Sequence[Recorded],
        *,
        position: int,
    ) -> None:
        by_session: dict[SessionId, list[Recorded]] = {}
        for recorded in rows:
            by_session.setdefault(recorded.session_id, []).append(recorded)
        saved: list[SessionChanges] = []
        parked: list[Parked] = []
        states = await batch.states(tuple(by_session))
        left_out = await batch.parked(tuple(by_session))
        for session_id, recorded in by_session.items():
            if session_id in left_out:
                continue
            stored = states.get(session_id)
            if stored is None and recorded[0].seq > 1:
                recorded = [*await self._inherited(recorded[0]), *recorded]  # noqa: PLW2901 - all of it
            match _fold_session(projection, stored, session_id, recorded):
                case SessionChanges() as changes:
                    saved.append(changes)
                case Parked() as trouble:
                    parked.append(trouble)
                case None:
                    pass
        await batch.save(saved, parked=parked, position=position)

    async def _inherited(self, first: Recorded) -> list[Recorded]:
        """What a fork has from its origin: it stands elsewhere in the log."""
        inherited: list[Recorded] = []
        async with aclosing(
            self._log.read(first.session_id, until=first.seq - 1, deltas=False)
        ) as batches:
            async for batch in batches:
                inherited.extend(batch)
        return inherited


async def _report(
    error: Exception, projection: Projection[Any], partition: int, *, failures: int
) -> None:
    stalled = log.bind(projection=projection.name, partition=partition, failures=failures)
    if isinstance(error, Unavailable):
        stalled.warning("projection_stalled", reason=str(error))
        return
    # A traceback quotes source files, which are read: not in the event loop.
    trace = await asyncio.to_thread(traceback.format_exception, error)
    stalled.error("projection_stalled", reason=type(error).__name__, exception="".join(trace))


def _fold_session(
    projection: Projection[Any],
    stored: StoredState | None,
    session_id: SessionId,
    recorded: Sequence[Recorded],
) -> SessionChanges | Parked | None:
    """What events change in the read model of their session; None where they are in it already."""
    seq = stored.seq if stored is not None else 0
    changes: list[Change] = []
    news = [event for event in recorded if event.seq > seq]
    if not news:
        return None
    try:
        state = projection.initial() if stored is None else projection.decode_state(stored.state)
        for event in news:
            seq = event.seq
            state, changed = projection.fold(state, event.envelope)
            changes.extend(_encode(projection, change) for change in changed)
        listed = isinstance(projection, ListedProjection)
        return SessionChanges(
            session_id=session_id,
            owner=news[-1].owner,
            seq=seq,
            state=projection.encode_state(state),
            changes=tuple(changes),
            listing=projection.listing(state) if listed else None,
        )
    except Exception as error:  # noqa: BLE001 - the border of a follower: one session must not stop all
        # Not the error's own words in the logs: they may quote what people wrote.
        log.error(  # noqa: TRY400 - likewise
            "session_parked",
            projection=projection.name,
            session_id=session_id,
            seq=seq,
            reason=type(error).__name__,
        )
        return Parked(
            session_id=session_id,
            seq=seq,
            error=f"{type(error).__name__}: {error}"[:ERROR_LENGTH].replace("\0", "\ufffd"),
        )


def _encode(projection: Projection[Any], change: Change) -> Change:
    if isinstance(change, Put):
        return Put(key=change.key, row=projection.encode_row(change.row))
    return change
