"""Follow the log: send the trace of each turn once it has ended.

One node of a log does it at a time (`LeaderLock`). A checkpoint in Postgres moves once a trace was taken,
so a crash or a collector that is away costs none; the log is the queue. What was sent in the moment before
a crash is sent again with the same ids, which is the same to whoever takes it.
"""

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import structlog
from msgspec import Struct

from navi.application.reading.trace_session import completes_traces, traces_of
from navi.domain.reading.spans import Span
from navi.domain.vocabulary.errors import Unavailable
from navi.log_error import log_error
from navi.ports.event_log import Recorded
from navi.ports.leader_lock import LeaderLock
from navi.ports.log_partitions import PartitionedLog
from navi.ports.traces import SpanExporter, TraceCheckpoint
from navi.race import race

PAGE = 500  # events
BATCH_SPANS = 512  # sent at once: what the SDK's own batches hold
SAVE_EVERY = 5000  # events without a trace, after which the checkpoint is moved all the same
AWAY, REFUSED, NO_LOG = (
    "the endpoint does not answer",
    "the endpoint refuses them",
    "Postgres does not answer",
)

log = structlog.get_logger()


class ExportDelays(Struct, frozen=True, kw_only=True):
    """Delays in seconds.

    Attributes:
        rest: between two looks at a log that grows with every piece of text; nobody waits for this.
        look: between two looks at the lock, and at a log that says nothing.
        first_retry: after a failure; doubles with each further one.
        last_retry: the longest pause between two tries.
    """

    rest: float = 0.5
    look: float = 5.0
    first_retry: float = 0.5
    last_retry: float = 60.0


class ExportTraces:
    """A follower of the log; any number of processes may run it."""

    def __init__(
        self,
        event_log: PartitionedLog,
        checkpoint: TraceCheckpoint,
        exporter: SpanExporter,
        lock: LeaderLock,
        pace: ExportDelays,
    ) -> None:
        self._log = event_log
        self._checkpoint = checkpoint
        self._exporter = exporter
        self._lock = lock
        self._pace = pace
        self._pause = pace.first_retry
        self._trouble: str | None = None  # told of, and not over yet
        # By partition, while the lock is held: up to where traces were sent, and where that is saved.
        self._sent: dict[int, int] = {}
        self._saved: dict[int, int] = {}

    async def run(self) -> NoReturn:
        """Send until cancelled."""
        try:
            while True:
                try:
                    await self._step()
                except Unavailable:
                    await self._start_over(NO_LOG)
                except Exception as error:  # noqa: BLE001 - the border of a follower: it goes on
                    log_error(log, "traces_broke", error)
                    await self._start_over(type(error).__name__)
        finally:
            self._lock.release()

    async def _step(self) -> None:
        if not await self._lock.acquire():
            self._sent.clear()
            await asyncio.sleep(self._pace.look)
            return
        for number in range(self._log.partitions):
            if number not in self._sent:
                self._sent[number] = self._saved[number] = await self._position(number)
        await race(
            *(
                self._log.wait_beyond(number, position, timeout=self._pace.look)
                for number, position in self._sent.items()
            )
        )
        for number in range(self._log.partitions):
            await self._send_beyond(number)
        await asyncio.sleep(self._pace.rest)

    async def _position(self, partition: int) -> int:
        """Up to where traces were sent; what was there before anybody asked for traces is not."""
        position = await self._checkpoint.position(partition)
        if position is None:
            position = (await self._log.read_all(partition, after=0, limit=1)).head
            await self._checkpoint.move(partition, after=None, position=position)
        return position

    async def _send_beyond(self, partition: int) -> None:
        """Send all that was completed since, in batches; stops where nobody takes it."""
        while (after := self._sent.get(partition)) is not None:
            page = await self._log.read_all(partition, after=after, limit=PAGE, deltas=False)
            spans: list[Span] = []
            for row in page.rows:
                if completes_traces(row):
                    spans += await self._made(row)
                if len(spans) >= BATCH_SPANS:
                    if not await self._send(partition, spans, reached=row.position):
                        return
                    spans = []
            if not await self._send(partition, spans, reached=page.reached):
                return
            if page.reached >= page.head:
                return

    async def _made(self, row: Recorded) -> tuple[Span, ...]:
        try:
            return await traces_of(self._log, row)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the border of one trace: the others must not suffer for it
            log_error(log, "trace_broke", error, session_id=row.session_id, seq=row.seq)
            return ()

    async def _send(self, partition: int, spans: Sequence[Span], *, reached: int) -> bool:
        """Send what was completed up to a position; whether it was taken, or never will be."""
        if spans:
            match await self._exporter.export(spans):
                case "taken":
                    self._recover()
                case "refused":
                    self._tell(REFUSED)
                case "away":
                    await self._wait(AWAY)
                    return False
        self._sent[partition] = max(reached, self._sent[partition])
        if spans or reached - self._saved[partition] >= SAVE_EVERY:
            return await self._save(partition)
        return True

    async def _save(self, partition: int) -> bool:
        """Move the checkpoint; False where another node was at it, as the lock was lost meanwhile."""
        position = self._sent[partition]
        moved = await self._checkpoint.move(
            partition, after=self._saved[partition], position=position
        )
        if moved:
            self._saved[partition] = position
        else:
            self._sent.clear()
        return moved

    def _recover(self) -> None:
        self._pause = self._pace.first_retry
        if self._trouble is not None:
            log.info("traces_recovered")
        self._trouble = None

    def _tell(self, reason: str) -> None:
        if self._trouble != reason:
            log.warning("traces_not_sent", reason=reason)
        self._trouble = reason

    async def _start_over(self, reason: str) -> None:
        """Forget what was so while the lock was held: it may be another's now."""
        self._sent.clear()
        await self._wait(reason)

    async def _wait(self, reason: str) -> None:
        self._tell(reason)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, self._pace.last_retry)
