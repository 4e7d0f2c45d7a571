"""Fold one batch of events into a build, in one transaction with its checkpoint."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec
import structlog
from msgspec import Struct

from navi.domain.reading.fold import fold_event
from navi.domain.reading.projection import (
    UNREADABLE,
    Change,
    ListedProjection,
    Listing,
    Projection,
    Put,
)
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import EVENT_TYPES, Envelope
from navi.domain.vocabulary.ids import SessionId
from navi.failpoints import failpoint
from navi.ports.event_log import FACTS, Recorded, Types
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_model_builds import ProjectionBatch, ReadModelBuilds, SessionChanges
from navi.ports.read_models import Build, ParkedEvent, StoredState

log = structlog.get_logger()

UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
NAMES_SAID = 100  # types or versions that this process does not know, each of which it logs once

_Checkpoint: TypeAlias = tuple[str, int, int]  # projection, build, partition


class Held(Struct, frozen=True):
    """The checkpoint is locked by another process, or the build is retired."""


class Reached(Struct, frozen=True, kw_only=True):
    """The read model is at ``position``; the partition's head was at ``head``."""

    position: int
    head: int


class FoldBatch:
    """Folds new events into a build, batch by batch, each in one transaction.

    An event that cannot be folded is parked, and its session goes on without it. After a batch that the
    database did not take, the next one is half as large, down to one event; each that it takes lets
    the next be twice as large.
    """

    def __init__(
        self, event_log: PartitionedLog, read_models: ReadModelBuilds, *, batch_events: int
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._batch_events = batch_events
        self._lowered: dict[_Checkpoint, int] = {}  # events of the next batch, where fewer
        self._unknown: set[tuple[str, int]] = set()

    async def next(
        self, projection: Projection[Any], build: Build, partition: int
    ) -> Reached | Held:
        """Fold in the next batch of a partition.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        checkpoint = (projection.name, build.number, partition)
        limit = self._lowered.get(checkpoint, self._batch_events)
        try:
            reached = await self._next(projection, build, partition, limit=limit)
        except LogUnavailable:
            # Its statements may have run out of time: how long events take is not known before.
            self._lowered[checkpoint] = max(1, limit // 2)
            raise
        if limit < self._batch_events:
            self._lowered[checkpoint] = min(2 * limit, self._batch_events)
        return reached

    async def _next(
        self, projection: Projection[Any], build: Build, partition: int, *, limit: int
    ) -> Reached | Held:
        async with self._read_models.begin(projection.name, build.number, partition) as batch:
            if batch is None:
                return Held()
            page = await self._log.read_all(
                partition, after=batch.position, limit=limit, deltas=False
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
            self._say_if_unknown(recorded)
        # Once a batch: before Python 3.12 looking at a protocol costs more than folding an event.
        listed = projection if isinstance(projection, ListedProjection) else None
        saved: list[SessionChanges] = []
        parked: list[ParkedEvent] = []
        states = await batch.states(tuple(by_session))
        for session_id, news in by_session.items():
            stored = states.get(session_id)
            folding = await self._folded(projection, listed, stored, news, careful=False)
            try:
                changes = folding.result(news[-1])
            except UNENCODABLE:
                # Which event it is that leads there is worth looking for only now.
                folding = await self._folded(projection, listed, stored, news, careful=True)
                changes = folding.result(news[-1])
            parked.extend(folding.parked)
            if changes is not None:
                saved.append(changes)
        await batch.save(saved, parked=parked, position=position)

    async def _folded(
        self,
        projection: Projection[Any],
        listed: ListedProjection[Any] | None,
        stored: StoredState | None,
        news: Sequence[Recorded],
        *,
        careful: bool,
    ) -> "_Folding":
        folding = _Folding(projection, listed, stored, careful=careful)
        if folding.seq == 0 and news[0].seq > 1:
            # A fork has its beginning from its origin: it stands elsewhere in the log. So does what
            # a state held that cannot be read any more.
            types = Types(only=projection.reads, but=FACTS.but)
            earlier = self._log.read(news[0].session_id, until=news[0].seq - 1, types=types)
            async with aclosing(earlier) as batches:
                async for batch in batches:
                    for recorded in batch:
                        folding.apply(recorded)
        for recorded in news:
            folding.apply(recorded)
        return folding

    def _say_if_unknown(self, recorded: Recorded) -> None:
        kind = EVENT_TYPES.get(recorded.type)
        known = kind is not None and recorded.v <= kind.V
        name = (recorded.type, recorded.v)
        if known or name in self._unknown or len(self._unknown) >= NAMES_SAID:
            return
        self._unknown.add(name)
        log.warning(
            "event_of_a_newer_navi",
            type=recorded.type,
            v=recorded.v,
            hint="carried along unread; update this node",
        )


class _Folding:
    """Folds a batch of one session's events onto its stored state."""

    def __init__(
        self,
        projection: Projection[Any],
        listed: ListedProjection[Any] | None,
        stored: StoredState | None,
        *,
        careful: bool,
    ) -> None:
        """Start from the stored state.

        Args:
            listed: the same projection, where it lists sessions.
            careful: an event that leads to a state that cannot be stored is parked.
        """
        self._projection = projection
        self._reads = projection.reads
        self._listed = listed
        self._careful = careful
        self._state: Any = projection.initial()
        self._stored_seq = 0 if stored is None else stored.seq
        self._anew = stored is not None and self._stored_seq == 0
        self._changes: list[Change] = []
        self.seq = 0
        self.parked: list[ParkedEvent] = []
        if stored is None or self._anew:
            return
        try:
            self._state = projection.decode_state(stored.state)
        except UNREADABLE as error:
            # A cache is not worth a halt: what cannot be read is made again from the log.
            reason = type(error).__name__
            log.warning("stored_state_unreadable", projection=projection.name, reason=reason)
            self._anew = True
        else:
            self.seq = stored.seq

    def apply(self, recorded: Recorded) -> None:
        """Fold in an event, or park it with its error; idempotent."""
        if recorded.seq <= self.seq:
            return
        self.seq = recorded.seq
        if self._reads is not None and recorded.type not in self._reads:
            return
        step = fold_event(self._fold, self._state, recorded)
        self._state = step.state
        self._changes.extend(step.changes)
        if step.poison is not None:
            self._park(recorded, step.poison)

    def result(self, last: Recorded) -> SessionChanges | None:
        """The changes to store; None if nothing was new. ``last`` is the last event given."""
        if self.seq <= self._stored_seq and not self._anew:
            return None
        return SessionChanges(
            session_id=last.session_id,
            owner=last.owner,
            seq=self.seq,
            state=self._projection.encode_state(self._state),
            changes=tuple(self._changes),
            anew=self._anew,
            listing=self._listing(self._state),
        )

    def _fold(self, state: Any, envelope: Envelope) -> tuple[Any, tuple[Change, ...]]:
        after, changes = self._projection.fold(state, envelope)
        encoded = tuple(_encode(self._projection, change) for change in changes)
        if self._careful:
            self._projection.encode_state(after)
        self._listing(after)
        return after, encoded

    def _listing(self, state: Any) -> Listing | None:
        return None if self._listed is None else self._listed.listing(state)

    def _park(self, recorded: Recorded, poison: str) -> None:
        # Not the error's own words in the logs: they may quote what people wrote.
        log.error(
            "event_parked",
            projection=self._projection.name,
            session_id=recorded.session_id,
            seq=recorded.seq,
            type=recorded.type,
            reason=poison.partition(":")[0],
        )
        self.parked.append(
            ParkedEvent(
                session_id=recorded.session_id, seq=recorded.seq, type=recorded.type, error=poison
            )
        )


def _encode(projection: Projection[Any], change: Change) -> Change:
    if isinstance(change, Put):
        return Put(key=change.key, row=projection.encode_row(change.row))
    return change
