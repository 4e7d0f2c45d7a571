"""Relay the log to NATS: ask the stream where it ends, publish what follows, repeat.

There is no second checkpoint: a stream's last sequence number is a position of the log, so a stream
that was deleted or went back is filled again by the same loop. Every message is stored right behind
its predecessor or not at all, so two relays on one partition can only waste each other's time; the
one that comes second stands by until the first one moves no more.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import NoReturn

import structlog
from msgspec import Struct, UnsetType

from navi.application.followers.in_flight import InFlight
from navi.application.followers.read_ahead import ReadAhead
from navi.domain.log.subjects import format_position, stream_name
from navi.domain.vocabulary.errors import (
    BadInput,
    BusSilent,
    BusUnavailable,
    LogDamaged,
    LogUnavailable,
    StreamMoved,
    StreamRefused,
)
from navi.domain.vocabulary.events import ContentErased
from navi.failpoints import failpoint
from navi.ports.event_log import Recorded
from navi.ports.event_stream import EventStream
from navi.ports.log_partitions import PartitionedLog

STALLED_AFTER = 2  # questions and batches in a row without an answer
# Pages that NATS has not answered while the next one is sent: it has to do then, and so has navi. More gains nothing.
UNANSWERED = 3

log = structlog.get_logger()


class RelayDelays(Struct, frozen=True, kw_only=True):
    """The relay's delays and time-outs, in seconds.

    Attributes:
        recheck: between two looks at a stream that has everything.
        gather: until what comes after the end of the log is looked for: a publication of many costs
            little more than one of one.
        stand_by: how long another relay may take to publish what is new.
        first_retry: after a failure; doubles with each further one.
        last_retry: the longest pause between two tries.
    """

    recheck: float = 2.0
    gather: float = 0.005
    stand_by: float = 1.0
    first_retry: float = 0.1
    last_retry: float = 2.0


class Starting(Struct, frozen=True):
    """The stream's end is not known yet."""


class Following(Struct, frozen=True, kw_only=True):
    """The stream holds everything up to ``position``; the log ended at ``head``."""

    position: int
    head: int


class StandingBy(Struct, frozen=True, kw_only=True):
    """Another node's relay fills the stream; at the last look it ended at ``position``, the log at ``head``."""

    position: int
    head: int


class Degraded(Struct, frozen=True, kw_only=True):
    """Nothing is published; ``reason`` is a sentence for people.

    Attributes:
        stalled: NATS is there and takes no events: a nats-server whose disk was full stores nothing
            more in a stream until it is started again, and may not even tell of it.
    """

    reason: str
    stalled: bool = False


RelayState = Starting | Following | StandingBy | Degraded


class Relay:
    """The relay of one partition; ``state`` is for status and health checks."""

    def __init__(
        self, events: PartitionedLog, stream: EventStream, partition: int, pace: RelayDelays
    ) -> None:
        self._events = events
        self._stream = stream
        self._partition = partition
        self._pace = pace
        self._retry = pace.first_retry
        self._reported: type[Exception] | None = None
        self._unanswered = 0
        self._stored: int | None = None  # up to here NATS has said that it has all
        self._in_doubt = False  # since then NATS left a batch without an answer, or has moved
        self.reached: int | None = (
            None  # the last end of the stream that is known, for who measures
        )
        self.state: RelayState = Starting()

    @property
    def partition(self) -> int:
        return self._partition

    async def run(self) -> NoReturn:
        """Publish until cancelled; retries after every failure."""
        contested = False
        while True:
            try:
                if contested:
                    await self._stand_by()
                contested = await self._follow()
            except (BusUnavailable, LogUnavailable, LogDamaged, StreamRefused) as error:
                await self._pause(error, str(error))
            except Exception as error:  # noqa: BLE001 - a follower: the next try starts from nothing
                await self._pause(error, f"the relay failed: {_origin(error)}")

    async def _follow(self) -> bool:
        """Publish what follows the end of the stream, until another relay moves it.

        Gives whether it went forward, that is, whether another relay is at work.
        """
        position = await self._reopen()
        async with (
            ReadAhead(self._events, self._partition, after=position) as pages,
            InFlight() as sent,
        ):
            while True:
                page = await pages.next()
                _check_not_ahead(self._partition, position, head=page.head)
                if not page.rows:
                    self._set_following(position, page.head)
                    if await self._events.wait_beyond(
                        self._partition, position, timeout=self._pace.recheck
                    ):
                        continue
                    end = await self._stream.open(self._partition)
                    if end != position:
                        return end > position
                    continue
                erasures = [row for row in page.rows if row.type == ContentErased.TYPE]
                is_last = page.rows[-1].position == page.head
                try:
                    if erasures:
                        position = await self._settle(sent, position, head=page.head, most=0)
                        await self._erase(erasures)
                    sent.begin(page.rows[-1], self._publish(page.rows, behind=sent.last))
                    most = 0 if is_last else UNANSWERED
                    position = await self._settle(sent, position, head=page.head, most=most)
                except StreamMoved as moved:
                    end = await _moved_to(self._stream, self._partition, position, moved)
                    self._in_doubt = True
                    return end > position
                if is_last:
                    await asyncio.sleep(self._pace.gather)

    async def _settle(self, sent: InFlight, position: int, *, head: int, most: int) -> int:
        """Wait until at most so many pages are under way; gives the position up to which all is stored."""
        while len(sent) > most:
            position = (await sent.oldest()).position
            self._set_following(position, head)
        return position

    async def _erase(self, rows: Sequence[Recorded]) -> None:
        """Erase on the stream what was erased from the log, before ``content_erased`` is published.

        So whatever happens on the way, it happens again until both are done.
        """
        for row in rows:
            event = row.envelope.event
            # Forks are told as well, of events that stand under their origin's name.
            if not isinstance(event, ContentErased) or event.session_id != row.session_id:
                continue
            gone = await self._erased_before(row)
            if isinstance(event.seqs, UnsetType):
                await self._stream.erase_session(
                    self._partition,
                    owner=row.owner,
                    session_id=row.session_id,
                    types={type_ for _, _, type_ in gone},
                    before=row.position,
                )
            else:
                seqs = frozenset(event.seqs)
                positions = [position for position, seq, _ in gone if seq in seqs]
                await self._stream.erase(self._partition, positions)

    async def _erased_before(self, news: Recorded) -> list[tuple[int, int, str]]:
        """Position, seq and type of the session's own events without words.

        Where a whole session was erased these are all that there are of their types.
        """
        async with aclosing(self._events.read(news.session_id, until=news.seq - 1)) as batches:
            return [
                (row.position, row.seq, row.type)
                async for batch in batches
                for row in batch
                if row.session_id == news.session_id and row.salt is None
            ]

    async def _reopen(self) -> int:
        """Find the stream's end; a stream with a gap at its end is recreated."""
        position = await _open(self._events, self._stream, self._partition)
        if not self._in_doubt or self._stored is None:
            self._stored = position
            return position
        if position <= self._stored:
            return position
        # A nats-server that finds no room counts the event that it did not store.
        if await self._stream.event_at(self._partition, position) is not None:
            return position
        log.warning("stream_made_anew", partition=self._partition, hole=position)
        await self._stream.recreate(self._partition, first_position=1)
        return 0

    async def _publish(self, rows: Sequence[Recorded], *, behind: Recorded | None) -> None:
        await failpoint("relay.before_publish")
        await self._stream.publish(self._partition, rows, behind=behind)
        self._stored, self._in_doubt = rows[-1].position, False
        await failpoint("relay.after_publish")

    async def _stand_by(self) -> None:
        """Wait until the log has grown and the other relay has not published it."""
        while True:
            before, head = await place_of(self._events, self._stream, self._partition)
            self.state, self.reached = StandingBy(position=before, head=head), before
            self._recover()
            if not await self._events.wait_beyond(
                self._partition, before, timeout=self._pace.recheck
            ):
                continue
            await asyncio.sleep(self._pace.stand_by)
            if await self._stream.open(self._partition) <= before:
                return
            self._stored, self._in_doubt = None, False  # another relay gets on well

    def _set_following(self, position: int, head: int) -> None:
        self.state, self.reached = Following(position=position, head=head), position
        self._recover()

    def _recover(self) -> None:
        self._retry = self._pace.first_retry
        self._unanswered = 0
        if self._reported is not None:
            log.info("relay_recovered", partition=self._partition)
            self._reported = None

    async def _pause(self, error: Exception, reason: str) -> None:
        self._unanswered = self._unanswered + 1 if isinstance(error, BusSilent) else 0
        self._in_doubt = self._in_doubt or self._unanswered > 0
        stalled = self._unanswered >= STALLED_AFTER
        if stalled:
            reason = f"{reason}; it takes no events although it is there: once its disk has room, start it again"
        self.state = Degraded(reason=reason, stalled=stalled)
        # That NATS is away is told once, where the connection is kept.
        is_told = isinstance(error, BusUnavailable) and not stalled
        if not is_told and self._reported is not type(error):
            log.warning("relay_degraded", partition=self._partition, reason=reason)
            self._reported = type(error)
        await asyncio.sleep(self._retry)
        self._retry = min(self._retry * 2, self._pace.last_retry)


async def republish(
    events: PartitionedLog,
    stream: EventStream,
    *,
    partition: int,
    from_position: int,
    progress: Callable[[int, int], None],
) -> int:
    """Recreate a stream and republish the log from a position on.

    A relay that runs elsewhere helps: both fill the same stream in the same order.

    Args:
        progress: called with the position reached and the one to reach, after each step.

    Returns:
        The position at which the stream ends.

    Raises:
        BadInput: there is no such partition, or the log does not go that far.
        BusUnavailable, LogUnavailable, LogDamaged, StreamRefused: it stopped on the way; again.
    """
    if not 0 <= partition < events.partitions:
        raise BadInput("position", f"the log has no partition {partition}")
    target = (await events.read_all(partition, after=max(from_position - 1, 0), limit=1)).head
    if not 1 <= from_position <= target + 1:
        raise BadInput("position", f"the log goes from 1 to {target}, not to {from_position}")
    await stream.recreate(partition, first_position=from_position)
    position = from_position - 1
    async with ReadAhead(events, partition, after=position) as pages:
        while position < target:
            page = await pages.next()
            try:
                await stream.publish(partition, page.rows)
                position = page.rows[-1].position
            except StreamMoved as moved:
                position = await _moved_to(stream, partition, position, moved)
                await pages.go_to(position)
            progress(position, target)
    return position


async def _moved_to(stream: EventStream, partition: int, position: int, moved: StreamMoved) -> int:
    """Where a stream ends that was said to end no more at ``position``.

    Raises:
        BusSilent: it still ends there: so a store speaks that a full disk broke.
    """
    end = await stream.open(partition)
    if end == position:
        raise BusSilent(f"NATS takes no events: {moved}") from moved
    return end


async def place_of(events: PartitionedLog, stream: EventStream, partition: int) -> tuple[int, int]:
    """Where a stream ends, and where the log does.

    Raises:
        StreamRefused: what stands in the stream is not what the log has there; says what to do.
        BusUnavailable, LogUnavailable: it cannot be told.
    """
    position = await _open(events, stream, partition)
    head = (await events.read_all(partition, after=max(position - 1, 0), limit=1)).head
    return position, head


async def _open(events: PartitionedLog, stream: EventStream, partition: int) -> int:
    """Where the stream ends.

    Raises:
        StreamRefused: what stands there is not what the log has at that position.
    """
    position = await stream.open(partition)
    if position == 0:
        return 0
    page = await events.read_all(partition, after=position - 1, limit=1)
    _check_not_ahead(partition, position, head=page.head)
    event_id = await stream.event_at(partition, position)
    if event_id is not None and event_id != page.rows[0].id:
        place = format_position(partition, position)
        raise StreamRefused(
            f"stream {stream_name(partition)} and the log have different events at {place}: one of "
            f"them comes from a backup; {_remedy(partition)}"
        )
    return position


def _check_not_ahead(partition: int, position: int, *, head: int) -> None:
    if head < position:
        raise StreamRefused(
            f"stream {stream_name(partition)} is ahead of the log: it ends at "
            f"{format_position(partition, position)}, the log at {format_position(partition, head)}; "
            f"the log comes from a backup or is another one; {_remedy(partition)}"
        )


def _remedy(partition: int) -> str:
    return f"`navi publish --from {format_position(partition, 1)}` makes the stream anew"


def _origin(error: Exception) -> str:
    """The type and place of an error, without its text, which may hold secrets."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    if where is None:
        return type(error).__name__
    return f"{type(error).__name__} in {where.tb_frame.f_code.co_qualname}, line {where.tb_lineno}"
