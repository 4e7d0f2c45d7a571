"""Record: one session's state in this process, and the only way to append to its log."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec.structs import replace

from navi.application.reading.read_session import open_fold
from navi.application.session.partial_replies import partial_replies
from navi.application.session.retry import with_retry
from navi.domain.log.secrets import Secrets, masked_event
from navi.domain.reading.fold import Fold
from navi.domain.session.commands import Command, PartialReply, Runner
from navi.domain.session.decide import Decided, decide, turn_ids
from navi.domain.session.session import Session, Wait, next_step
from navi.domain.vocabulary.errors import ConcurrentAppend, LogUnavailable, RuleBroken
from navi.domain.vocabulary.events import (
    TEXT_DELTA_TYPES,
    AgentEvent,
    CompressionUndone,
    ContentErased,
    SessionCreated,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from navi.domain.vocabulary.ids import CallId, EventId, NodeId, SessionId, SubagentId
from navi.ports.clock import Clock, Ids
from navi.ports.event_log import Append, EventLog, NewEvent, Recorded, Selection, Types
from navi.ports.metrics import EventMetrics
from navi.ports.read_models import ReadModels
from navi.projections.context import Context, ContextState
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo, TodoState

# For its turn at a session that is busy: longer than an append may take, since then Postgres is away.
LOCK_SECONDS = 5.5
# Text in the making, which is most events: it moves a session on, and is not even decoded for its folds.
_UNREAD = frozenset(TEXT_DELTA_TYPES)
_NOTED = frozenset(
    {ToolStarted.TYPE, ToolFinished.TYPE, CompressionUndone.TYPE, ContentErased.TYPE}
)
MILLISECOND = timedelta(milliseconds=1)
REFRESH_SECONDS = 5.0  # for what others appended, with the turn

Answer = TypeVar("Answer")


class Record:
    """One session: its folds, kept up to date with the log, and its only writer in this process.

    Everything this process writes to the session goes through ``execute``, one command at a time, so
    that conflicts come from other processes only.

    Attributes:
        halt: set when whoever runs the open turn here has to stop at once: a stop was requested, the
            turn has ended, or another process took it over.
        changing_todo: held by whoever changes the todo list, from reading it until that is in it.
    """

    def __init__(
        self,
        event_log: EventLog,
        read_models: ReadModels,
        clock: Clock,
        ids: Ids,
        node: NodeId,
        secrets: Secrets,
        *,
        session_id: SessionId,
        session: Fold[Session],
        metrics: EventMetrics | None = None,
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._clock = clock
        self._ids = ids
        self._node = node
        self._secrets = secrets
        self._metrics = metrics
        self._sent: set[EventId] = set()  # not seen in the log yet: an append may fail and be there
        self.id = session_id
        self._session = session
        # Of a session that begins here nothing is behind them that would have to be read.
        begins = session.seq == 0
        self._context: Fold[ContextState] | None = Fold(Context()) if begins else None
        self._todo: Fold[TodoState] | None = Fold(Todo()) if begins else None
        self._subagents: dict[SubagentId, Fold[ContextState]] = {}
        self._tools_began: dict[CallId, datetime] = {}  # of calls that run in this process
        self._lock = asyncio.Lock()
        self._cut_off = False  # whoever has the lock waits for Postgres
        self._grown = asyncio.Event()
        self.halt = asyncio.Event()
        self.changing_todo = asyncio.Lock()

    @property
    def session(self) -> Session:
        """The session's state, as of the last event this process has folded."""
        return self._session.state

    @property
    def seq(self) -> int:
        """The seq of the last event this process has folded."""
        return self._session.seq

    async def context(self) -> Fold[ContextState]:
        """The agent's context, folded from the log and kept up to date from here on.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        async with self._locked():
            while self._context is None:  # what the refresh brings may make it good no more
                self._context = await open_fold(self._log, self._read_models, Context(), self.id)
                await self._refresh()
            return self._context

    async def context_of(self, subagent_id: SubagentId | None) -> Fold[ContextState]:
        """The context of the agent or of a subagent, kept up to date from here on.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        if subagent_id is None:
            return await self.context()
        async with self._locked():
            fold = self._subagents.get(subagent_id)
            if fold is None:
                fold = Fold(Context(subagent_id))
                wanted, after = Types(only=fold.reads), await self._before_turn()
                reading = self._log.read(self.id, after=after, until=self.seq, types=wanted)
                async with aclosing(reading) as batches:
                    async for rows in batches:
                        for row in rows:
                            fold.apply(row)
                self._subagents[subagent_id] = fold
            return fold

    async def _before_turn(self) -> int:
        """The seq up to which the log tells nothing of a subagent: none is older than its turn."""
        last = Selection(
            before=self.seq + 1, limit=1, types=Types(only=frozenset({TurnStarted.TYPE}))
        )
        async with aclosing(self._log.select(self.id, last, until=self.seq)) as batches:
            async for rows in batches:
                return rows[0].seq - 1
        return 0

    async def todo(self) -> Fold[TodoState]:
        """The todo list, kept up to date from here on.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        async with self._locked():
            while self._todo is None:  # as the context
                self._todo = await open_fold(self._log, self._read_models, Todo(), self.id)
                await self._refresh()
            return self._todo

    async def beyond(self, seq: int) -> None:
        """Wait until this process has folded an event behind ``seq``."""
        while self.seq <= seq:
            await self._grown.wait()

    def runner(self) -> Runner | None:
        """The runner of the open turn if this process runs it, else None."""
        turn = self.session.turn
        if turn is None or turn.node != self._node:
            return None
        return Runner(turn_id=turn.id, attempt=turn.attempt)

    async def partial_replies(self) -> dict[CallId, PartialReply]:
        """What came of the turn's open model calls, read from the log.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        turn = self.session.turn
        return {} if turn is None else await partial_replies(self._log, self.id, turn)

    async def refresh(self, *, until: int | None = None) -> None:
        """Fold in what other processes appended.

        Args:
            until: an event that is enough; the log is not read where it is known by then, as it is
                where the append under way is this process's own.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        try:
            async with asyncio.timeout(REFRESH_SECONDS), self._locked():
                if until is None or self.seq < until:
                    await self._refresh()
        except TimeoutError as error:
            raise LogUnavailable("the session waits for Postgres") from error

    async def execute(self, command: Command, *, retry: bool = False) -> tuple[Recorded, ...]:
        """Decide a command on the latest state and append its events.

        Args:
            retry: keep trying while Postgres is away, until the turn is to halt; the same events
                are sent again by id, so that nothing is stored twice.

        Returns:
            What was appended; nothing where the command changes nothing.

        Raises:
            NotFound: no such session.
            RuleBroken: the command does not fit the session's state.
            LogUnavailable: Postgres does not answer; whether the events are stored is unknown.
        """
        async with self._lock if retry else self._locked():
            while True:
                try:
                    return await self._attempt(command, retry=retry)
                except ConcurrentAppend:
                    await (self._through_outage(self._refresh) if retry else self._refresh())

    async def try_once(self, command: Command, *, seen: int) -> tuple[Recorded, ...]:
        """Decide and append once, only if the log still ends at ``seen`` (optimistic concurrency).

        Raises:
            ConcurrentAppend: somebody appended since, here or elsewhere; what is new is folded in,
                make the command anew.
        """
        async with self._locked():
            if self.seq != seen:
                raise ConcurrentAppend(self.id, seen)
            try:
                return await self._attempt(command, retry=False)
            except ConcurrentAppend:
                await self._refresh()
                raise

    async def _attempt(self, command: Command, *, retry: bool) -> tuple[Recorded, ...]:
        newer = self.session.newer
        if newer is not None:
            raise RuleBroken(
                f"event {newer.seq} of the session is a {newer.type} of version {newer.version}, "
                "which a newer navi wrote: here the session can only be read"
            )
        decided = decide(self.session, command)
        events = self._place(decided)
        if not events:
            return ()
        first = events[0].event  # of a session that is only made now, it says whose it is
        owner = first.owner if isinstance(first, SessionCreated) else self.session.owner
        batch = Append(session_id=self.id, owner=owner, expected=self.seq, events=events)
        if self._metrics is None:
            rows = await self._append(batch, retry=retry)
        else:
            rows = await self._measured(batch, self._metrics, retry=retry)
        self._take(rows)
        return rows

    async def _measured(
        self, batch: Append, metrics: EventMetrics, *, retry: bool
    ) -> tuple[Recorded, ...]:
        began = self._clock.monotonic()
        sent = {event.id for event in batch.events}
        self._sent |= sent
        try:
            rows = await self._append(batch, retry=retry)
        except ConcurrentAppend:
            self._sent -= sent
            raise
        metrics.appended(seconds=self._clock.monotonic() - began)
        self._sent = sent  # what was sent before, and was not seen by now, is not in the log
        return rows

    async def _append(self, batch: Append, *, retry: bool) -> tuple[Recorded, ...]:
        if not retry:
            return await self._log.append(batch)
        return await self._through_outage(lambda: self._log.append(batch))

    async def _through_outage(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The result of ``ask``, retried while Postgres is away; nobody waits for the lock meanwhile."""
        try:
            return await ask()
        except LogUnavailable:
            self._cut_off = True
            try:
                return await with_retry(ask)
            finally:
                self._cut_off = False

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None, None]:
        """Hold the session's lock; gives up while whoever has it waits for Postgres."""
        if self._cut_off:
            raise LogUnavailable("the session waits for Postgres")
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await self._lock.acquire()
        except TimeoutError as error:
            raise LogUnavailable("the session waits for Postgres") from error
        try:
            yield
        finally:
            self._lock.release()

    def _place(self, decided: Sequence[Decided]) -> tuple[NewEvent, ...]:
        now = self._clock.now()
        turns = iter(turn_ids(self.session, decided))
        return tuple(
            NewEvent(
                id=EventId(self._ids.uuid()),
                at=now,
                turn_id=next(turns),
                subagent_id=part.subagent_id,
                event=masked_event(self._timed(event, now), self._secrets),
            )
            for part in decided
            for event in part.events
        )

    def _timed(self, event: AgentEvent, now: datetime) -> AgentEvent:
        """The event; where the end of a turn answers for a tool that ran here, with how long it did."""
        if type(event) is not ToolFinished or event.duration_ms:
            return event
        began = self._tools_began.get(event.call_id, now)
        return replace(event, duration_ms=max(0, round((now - began) / MILLISECOND)))

    async def _refresh(self) -> None:
        async for rows in self._log.read(self.id, after=self.seq):
            self._take(rows)

    def _take(self, rows: Sequence[Recorded]) -> None:
        before = self.runner()
        folds = self._folds()
        for row in rows:
            if self._metrics is not None:
                own = row.id in self._sent
                self._sent.discard(row.id)
                self._metrics.folded(row, self.session, own=own)
            if row.type in _UNREAD:
                continue
            for fold in folds:
                fold.apply(row)
            if row.type in _NOTED:
                self._note(row)
                folds = self._folds()
        for fold in folds:  # also behind what was not read
            fold.seq = max(fold.seq, rows[-1].seq)
        if self._session.state.seq != self._session.seq:
            self._session.state = replace(self._session.state, seq=self._session.seq)
        turn = self.session.turn
        if self._subagents:
            at_work = turn.actors if turn is not None else {}
            self._subagents = {k: v for k, v in self._subagents.items() if k in at_work}
        lost = before is not None and self.runner() != before
        if lost or (turn is not None and turn.stop_by is not None):
            self.halt.set()
        elif before is None and turn is not None:
            self.halt.clear()
        self._grown.set()
        self._grown.clear()  # whoever waits now has been woken

    def _folds(self) -> list[Fold[Any]]:
        folds = (self._session, self._context, self._todo, *self._subagents.values())
        return [fold for fold in folds if fold is not None]

    def _note(self, row: Recorded) -> None:
        """Keep what no fold does: since when a tool runs here, and which folds are good no more."""
        match row.readable:
            case ToolStarted(call_id=call_id) if self.runner() is not None:
                self._tools_began[call_id] = row.at
            case ToolFinished(call_id=call_id):
                self._tools_began.pop(call_id, None)
            case CompressionUndone():
                self._context = None  # it does not know the rows that are back
            case ContentErased():
                self._context, self._todo, self._subagents = (
                    None,
                    None,
                    {},
                )  # with the words in them
            case _:
                pass


class Records:
    """An LRU cache of the records of sessions.

    Args:
        secrets: what is masked in every event before it is appended.
        metrics: counts what is appended; None where nobody asks.
        capacity: how many are kept; one that is in use is never dropped, since its user holds it.
    """

    def __init__(
        self,
        event_log: EventLog,
        read_models: ReadModels,
        clock: Clock,
        ids: Ids,
        node: NodeId,
        secrets: Secrets,
        *,
        metrics: EventMetrics | None = None,
        capacity: int = 500,
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._clock = clock
        self._ids = ids
        self._node = node
        self._secrets = secrets
        self._metrics = metrics
        self._capacity = capacity
        self._kept: OrderedDict[SessionId, Record] = OrderedDict()

    async def open(self, session_id: SessionId) -> Record:
        """Open a session's record, up to date with the log.

        A session that does not exist has a record too: one at seq 0, which only takes its creation.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        record = self._kept.get(session_id)
        if record is None:
            record = await self._load(session_id)
            record = self._kept.setdefault(session_id, record)
        else:
            await record.refresh()
        self._kept.move_to_end(session_id)
        self._shrink()
        return record

    async def recent(self, session_id: SessionId) -> Record:
        """Open a session's record as this process saw it last, which others may have moved on since.

        For whoever appends next: that fails where it was old, and is then decided anew.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        record = self._kept.get(session_id)
        if record is None:
            return await self.open(session_id)
        self._kept.move_to_end(session_id)
        return record

    def kept(self, session_id: SessionId) -> Record | None:
        """The record of a session as it was last seen here: good for what never changes."""
        return self._kept.get(session_id)

    def begin(self, session_id: SessionId, start: Session) -> Record:
        """Make the record of a fork that is not in the log yet.

        It is not kept until it is given to ``keep``: its creation may fail.
        """
        state = replace(start, id=session_id)
        return self._record(session_id, Fold(Sessions(), seq=start.seq, state=state))

    def keep(self, record: Record) -> None:
        """Cache the record of a session that was just created."""
        self._kept[record.id] = record
        self._shrink()

    async def _load(self, session_id: SessionId) -> Record:
        fold = await open_fold(self._log, self._read_models, Sessions(), session_id, rows=False)
        fold.state = replace(fold.state, id=session_id, seq=fold.seq)
        return self._record(session_id, fold)

    def _record(self, session_id: SessionId, fold: Fold[Session]) -> Record:
        return Record(
            self._log,
            self._read_models,
            self._clock,
            self._ids,
            self._node,
            self._secrets,
            session_id=session_id,
            session=fold,
            metrics=self._metrics,
        )

    def _shrink(self) -> None:
        for session_id, record in list(self._kept.items()):
            if len(self._kept) <= self._capacity:
                return
            # A turn that waits for a person needs nobody, for as long as it waits.
            if record.runner() is None or isinstance(next_step(record.session), Wait):
                del self._kept[session_id]
