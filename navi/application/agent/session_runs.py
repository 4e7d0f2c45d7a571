"""The tasks that run sessions on this node: start, watch, drain."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import structlog

from navi.application.agent.run_turn import run_session
from navi.application.agent.running_turn import Agent
from navi.application.agent.turn_places import TurnPlaces
from navi.application.session.record import Record, Records
from navi.domain.vocabulary.errors import Unavailable
from navi.domain.vocabulary.events import TEXT_DELTA_TYPES
from navi.domain.vocabulary.ids import SessionId
from navi.log_error import log_error
from navi.ports.event_log import EventLog

log = structlog.get_logger()

UNAVAILABLE_PAUSE = 1.0  # seconds before what Postgres interrupted is tried again


class SessionRuns:
    """Owns the task of each running session; ``drain`` waits for them."""

    def __init__(
        self,
        event_log: EventLog,
        records: Records,
        agent: Agent,
        places: TurnPlaces,
        *,
        completed: Callable[[SessionId], None],
    ) -> None:
        """Nothing runs yet.

        Args:
            completed: called after each turn that was completed here.
        """
        self._log = event_log
        self.places = places
        places.given = self.wake
        self._completed = completed
        self._records = records
        self._agent = agent
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._again: set[SessionId] = set()
        self.draining = False

    @property
    def running(self) -> frozenset[SessionId]:
        """The sessions that have a running task on this node."""
        return frozenset(self._tasks)

    def wake(self, session_id: SessionId) -> None:
        """Run the session if it has work."""
        if self.draining:
            return
        if session_id in self._tasks:
            self._again.add(session_id)
            return
        task = asyncio.create_task(self._run(session_id), name=f"session {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda _: self._done(session_id))

    async def ended(self, session_id: SessionId) -> None:
        """Wait until the session's task on this node has ended."""
        while task := self._tasks.get(session_id):
            await asyncio.wait({task})

    async def drain(self, grace: float) -> None:
        """Drain: start no turns, wait ``grace`` seconds for open ones, then release the rest."""
        self.draining = True
        self.places.close()
        self._again.clear()  # so that each task leaves its session's place
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        left = {task for task in tasks if not task.done()}
        for task in left:
            task.cancel()
        if left:
            log.info("turns_handed_over", count=len(left))
            await asyncio.wait(left, timeout=5)

    def _done(self, session_id: SessionId) -> None:
        self._tasks.pop(session_id, None)
        if session_id in self._again:
            self._again.discard(session_id)
            self.wake(session_id)

    async def _run(self, session_id: SessionId) -> None:
        try:
            await self._run_turns(session_id)
        finally:
            if session_id not in self._again:
                await self.places.leave(session_id)

    async def _run_turns(self, session_id: SessionId) -> None:
        while True:
            try:
                await self._run_until_idle(await self._records.recent(session_id))
            except Unavailable as error:
                log.warning("session_waits", session_id=session_id, error=str(error))
                await asyncio.sleep(UNAVAILABLE_PAUSE)
            except Exception as error:  # noqa: BLE001 - a border: one session's trouble is not another's
                log_error(log, "session_broke", error, session_id=session_id)
                return
            else:
                return

    async def _run_until_idle(self, record: Record) -> None:
        """Run the turns that are this process's, until the log has no more of them.

        What is begun on an old picture fails at its append. What is left alone on one does not: it is
        looked at again on the latest, since whoever woke this may know more than the record.
        """
        while True:
            follower = asyncio.create_task(self._follow(record))
            try:
                await run_session(
                    record,
                    self._agent,
                    may_open=lambda: not self.draining,
                    completed=lambda: self._completed(record.id),
                )
            finally:
                follower.cancel()
                await asyncio.wait({follower})
            seen = record.seq
            await record.refresh()
            if record.seq == seen:
                return

    async def _follow(self, record: Record) -> None:
        """Fold what other processes append, so that a stop or take-over takes effect at once."""
        while True:
            try:
                await self._fold_news(record)
            except Unavailable:
                # What was said meanwhile is behind the record's end: it is read from there.
                await asyncio.sleep(UNAVAILABLE_PAUSE)

    async def _fold_news(self, record: Record) -> None:
        async with aclosing(self._log.watch(record.id, after=record.seq)) as rows:
            async for batch in rows:
                if all(row.type in TEXT_DELTA_TYPES for row in batch):
                    continue  # text in the making, which stops nothing and is most of what comes
                if batch[-1].seq > record.seq:
                    await asyncio.sleep(0)  # for whoever appended it here, who is told after this
                if batch[-1].seq > record.seq:
                    await record.refresh(until=batch[-1].seq)
