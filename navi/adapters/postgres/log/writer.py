"""Group commit: what all sessions want to append while one commit is under way goes into the next.

No linger: the commit under way is the window. One writer a partition, so the order in which rows
are handed on is the order of their positions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import asyncpg
import structlog
from msgspec import Struct

from navi.adapters.log_rows import EncodedEvent, recorded
from navi.adapters.postgres.connect import CONNECTION_ERRORS, Connection
from navi.adapters.postgres.log import statements
from navi.domain.vocabulary.errors import BadInput, LogUnavailable
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.failpoints import FailpointRaised, committed, failpoint
from navi.log_error import log_error
from navi.ports.event_log import Recorded

log = structlog.get_logger()

MAX_BATCH_EVENTS = 1000  # measured: more gains nothing
MAX_BATCH_BYTES = 1024 * 1024
# Slices that go together; where more wait, half of them go first, so that Postgres and navi work at once: sixteen
# sessions that await each step get on a third faster. Fewer would be more commits than that saves.
ALONE = 8
MAX_WAITING_EVENTS = 20_000
MAX_WAITING_BYTES = 32 * 1024 * 1024
ATTEMPT_SECONDS = (
    3.0  # one round trip; less than the deadline of an append, so that it can be repeated
)
FIRST_PAUSE = 0.02  # seconds before an attempt is repeated, doubled each time
LONGEST_PAUSE = 0.5

# What navi.append needs of its connection; the migration that made it says why.
PLANNED_ONCE = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
}

# The payload's own fault, not the connection's: asked again, the answer is the same.
PAYLOAD_ERRORS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)


class Slice(Struct, kw_only=True, eq=False):
    """Consecutive events of one session on their way into the log.

    Attributes:
        answer: gets the rows, or None where the session has moved on.
    """

    session_id: SessionId
    owner: Owner
    is_new: bool
    forked_from: SessionId | None
    expected: int
    previous_position: int
    previous_hash: bytes
    events: tuple[EncodedEvent, ...]
    hashes: list[bytes]
    deadline: float
    answer: asyncio.Future[tuple[Recorded, ...] | None]
    size: int = 0  # of the payloads, in bytes

    def __post_init__(self) -> None:
        for event in self.events:
            self.size += len(event.data)


class Writer:
    """The one that appends to a partition from this process; ``run`` is its task.

    Args:
        connect: makes the writer's connection.
        committed: is told the rows of each commit, in order, before anybody who waits for it.
    """

    def __init__(
        self,
        partition: int,
        *,
        connect: Callable[[], Awaitable[Connection]],
        committed: Callable[[list[tuple[Recorded, ...]]], Awaitable[None]],
    ) -> None:
        self._partition = partition
        self._connect = connect
        self._committed = committed
        self._connection: Connection | None = None
        self._waiting: deque[Slice] = deque()
        self._waiting_events = 0
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    async def submit(self, slice_: Slice) -> tuple[Recorded, ...] | None:
        """The rows once they are committed; None where the session has moved on.

        Raises:
            LogUnavailable: no commit before the slice's deadline; the outcome is unknown.
            BadInput: Postgres cannot store the payload.
        """
        while self._is_full() and not self._closed:
            self._room.clear()
            try:
                async with asyncio.timeout_at(slice_.deadline):
                    await self._room.wait()
            except TimeoutError as error:
                raise LogUnavailable("too many appends wait for Postgres") from error
        if self._closed:
            raise LogUnavailable("the log is closed")
        self._waiting.append(slice_)
        self._waiting_events += len(slice_.events)
        self._waiting_bytes += slice_.size
        self._arrived.set()
        # Each for itself: an old one in a batch takes no time from the young ones.
        loop = asyncio.get_running_loop()
        at_deadline = loop.call_at(slice_.deadline, _give_up, slice_)
        try:
            return await slice_.answer
        finally:
            at_deadline.cancel()

    async def run(self) -> None:
        """Commit batch after batch; endless, ends by cancellation."""
        batch: list[Slice] = []
        try:
            while True:
                await self._arrived.wait()
                batch = self._gather()
                if batch:
                    await self._commit_or_fail(batch)
        finally:
            self._closed = True
            self._drop_connection()
            _fail([*batch, *self._waiting], LogUnavailable("the log is closed"))
            self._waiting.clear()
            self._room.set()

    async def _commit_or_fail(self, batch: list[Slice]) -> None:
        try:
            await self._commit(batch)
        except Exception as error:  # noqa: BLE001 - the border of a follower: the next batch must not suffer for this one
            log_error(log, "append_broke", error)
            self._drop_connection()
            _fail(batch, LogUnavailable("the log failed"))

    def _is_full(self) -> bool:
        return (
            self._waiting_events >= MAX_WAITING_EVENTS or self._waiting_bytes >= MAX_WAITING_BYTES
        )

    def _gather(self) -> list[Slice]:
        """What goes into the next commit: a slice a session, within the bounds, in order of arrival."""
        batch: list[Slice] = []
        later: list[Slice] = []
        sessions: set[SessionId] = set()
        events = size = 0
        most = len(self._waiting) if len(self._waiting) <= ALONE else -(-len(self._waiting) // 2)
        while self._waiting and len(batch) < most:
            slice_ = self._waiting[0]
            if batch and (
                events + len(slice_.events) > MAX_BATCH_EVENTS
                or size + slice_.size > MAX_BATCH_BYTES
            ):
                break
            self._waiting.popleft()
            if slice_.session_id in sessions:
                later.append(slice_)
                continue
            self._waiting_events -= len(slice_.events)
            self._waiting_bytes -= slice_.size
            if slice_.answer.done():  # the caller has given up
                continue
            sessions.add(slice_.session_id)
            events += len(slice_.events)
            size += slice_.size
            batch.append(slice_)
        self._waiting.extendleft(reversed(later))
        if not self._waiting:
            self._arrived.clear()
        self._room.set()
        return batch

    async def _commit(self, batch: list[Slice]) -> None:
        """Append a batch and answer it, with repeats of what is still waited for."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while batch := [slice_ for slice_ in batch if not slice_.answer.done()]:
            deadline = max(slice_.deadline for slice_ in batch)
            try:
                await self._attempt(batch, seconds=max(0.05, deadline - loop.time()))
            except PAYLOAD_ERRORS as error:
                if len(batch) == 1:
                    _fail(batch, _payload_error(error))
                else:
                    for slice_ in batch:
                        await self._commit([slice_])
                return
            except FailpointRaised as error:
                _fail(batch, error)
                return
            except (LogUnavailable, asyncpg.PostgresError, *CONNECTION_ERRORS) as error:
                self._drop_connection()
                if loop.time() + pause >= deadline:
                    log.warning("append_gave_up", slices=len(batch), error=type(error).__name__)
                    _fail(
                        batch,
                        LogUnavailable(f"Postgres does not answer ({type(error).__name__})"),
                    )
                    return
                log.info("append_repeated", slices=len(batch), error=type(error).__name__)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

    async def _attempt(self, batch: list[Slice], *, seconds: float) -> None:
        if self._connection is None or self._connection.is_closed():
            async with asyncio.timeout(seconds):
                self._connection = await self._connect()
        await failpoint("log.before_append")
        try:
            row = await self._connection.fetchrow(
                statements.APPEND,
                *_arguments(self._partition, batch),
                timeout=min(seconds, ATTEMPT_SECONDS),
            )
        except PAYLOAD_ERRORS:
            raise
        except BaseException:
            # Whatever it was, what the connection answers next cannot be trusted.
            self._drop_connection()
            raise
        base, fits = cast("tuple[int, list[bool]]", row)
        await failpoint("log.after_append")
        await committed(
            event.type
            for slice_, fit in zip(batch, fits, strict=True)
            if fit
            for event in slice_.events
        )
        await self._answer(batch, base, fits)

    async def _answer(self, batch: list[Slice], base: int, fits: list[bool]) -> None:
        """Tell of the slices that fit; their rows stand behind ``base``, one behind another."""
        stored: list[tuple[Recorded, ...]] = []
        answers: list[tuple[Recorded, ...] | None] = []
        for slice_, fit in zip(batch, fits, strict=True):
            if not fit:
                answers.append(None)
                continue
            rows = recorded(
                slice_.events,
                slice_.hashes,
                partition=self._partition,
                position=base + 1,
                owner=slice_.owner,
                session_id=slice_.session_id,
                expected=slice_.expected,
            )
            base += len(rows)
            stored.append(rows)
            answers.append(rows)
        if stored:
            await self._committed(stored)
        for slice_, answer in zip(batch, answers, strict=True):
            if not slice_.answer.done():
                slice_.answer.set_result(answer)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()  # closing would wait for an answer
            self._connection = None


def _arguments(partition: int, batch: list[Slice]) -> tuple[object, ...]:
    """The parameters of APPEND: a row a session that begins, a slice, an event."""
    sessions = [
        (
            slice_.session_id,
            slice_.owner,
            slice_.forked_from,
            slice_.expected,
            slice_.previous_hash,
        )
        for slice_ in batch
        if slice_.is_new
    ]
    slices = [
        (slice_.session_id, slice_.expected, slice_.previous_position, slice_.previous_hash)
        for slice_ in batch
    ]
    events = [
        (
            number,
            slice_.session_id,
            seq,
            event.id,
            event.type,
            event.v,
            event.at,
            event.turn_id,
            event.subagent_id,
            event.data,
            event.salt,
            event.digest,
            hash_,
        )
        for number, slice_ in enumerate(batch, 1)
        for seq, (event, hash_) in enumerate(
            zip(slice_.events, slice_.hashes, strict=True), slice_.expected + 1
        )
    ]
    return partition, sessions, slices, events


def _fail(batch: list[Slice], error: Exception) -> None:
    for slice_ in batch:
        if not slice_.answer.done():
            slice_.answer.set_exception(error)


def _give_up(slice_: Slice) -> None:
    _fail([slice_], LogUnavailable("Postgres does not answer in time"))


def _payload_error(error: Exception) -> BadInput:
    # Not the server's own words: they quote the payload.
    return BadInput("event", f"Postgres cannot store it ({type(error).__name__})")
