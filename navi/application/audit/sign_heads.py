"""Sign the log's heads at intervals and at shutdown: to an append-only file, and to NATS.

One node of a log does it at a time. Whatever the file does not cover yet is covered next, so a node
that takes over, or was away, leaves no gap in its own file. NATS may be away: it gets the lines of the
file when it is back. Machines with files of their own each publish a chain of their own.
"""

import asyncio
from typing import Literal, NoReturn

import structlog
from msgspec import UNSET, UnsetType

from navi.application.audit.restored import is_restored
from navi.domain.log.heads import FIRST, MAX_SESSIONS, SignedHead, encode_head, link_of
from navi.domain.vocabulary.errors import BusUnavailable, NaviError, Unavailable
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.ids import SessionId
from navi.log_error import log_error
from navi.ports.clock import Clock
from navi.ports.leader_lock import LeaderLock
from navi.ports.log_admin import LogBackend
from navi.ports.signing import HeadsBus, HeadsJournal, Signer

EVERY_SECONDS = 5.0  # what was appended since the last line could still be cut off unseen
PAGE_ROWS = 1000
FULL_BYTES = 32 * 1024 * 1024  # of lines, from which on others are begun
SESSION_BYTES = 120  # a session in a line
MUCH_LONGER = 4  # than a line on every session: else there would be little else
LAST_SECONDS = 5.0  # for the last line of a process that ends

log = structlog.get_logger()

Grown = dict[SessionId, tuple[int, str]]


class SignHeads:
    """Signs the heads of one log."""

    def __init__(
        self,
        event_log: LogBackend,
        journal: HeadsJournal,
        bus: HeadsBus,
        signer: Signer,
        lock: LeaderLock,
        clock: Clock,
        *,
        log_id: str,
    ) -> None:
        self._log = event_log
        self._journal = journal
        self._bus = bus
        self._signer = signer
        self._lock = lock
        self._clock = clock
        self._log_id = log_id
        self._prev: str | None = None  # None while another node may be writing
        self._positions: dict[int, int] = {}
        self._full_at = FULL_BYTES
        self._told = False  # that the log is not the one that was signed
        self._published: int | None = None  # offset in the journal; None while it is not known
        self._began: int | None = None  # where the journal ended when this node got the lock

    async def run(self) -> NoReturn:
        """Sign at intervals until cancelled."""
        while True:
            try:
                await self.sign()
            except Unavailable as error:
                log.debug("heads_wait", reason=str(error))
            except Exception as error:  # noqa: BLE001 - a border: a follower goes on
                self._prev = self._published = None
                log_error(log, "heads_broke", error)
            await asyncio.sleep(EVERY_SECONDS)

    async def finish(self) -> None:
        """Sign the latest heads, as far as that can be done, and release the lock to the next node."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.sign()
        except (TimeoutError, NaviError, OSError) as error:
            log.info("heads_left_behind", reason=type(error).__name__)
        finally:
            self._lock.release()

    async def sign(self) -> None:
        """Sign what is new since the last line, and publish the lines that NATS lacks.

        Raises:
            LogUnavailable, BusUnavailable: Postgres or NATS does not answer; again later.
        """
        try:
            if not await self._lock.acquire():
                self._prev = self._published = self._began = None
                return
        except Unavailable:
            self._prev = self._published = self._began = None
            raise
        if self._prev is None and not await self._open():
            self._lock.release()  # to `navi restored`, which writes what this goes on from
            self._began = None
            return
        if self._began is None:
            self._began = await self._journal.size()
        for partition in range(self._log.partitions):
            await self._sign_partition(partition)
            if self._prev is None:
                break  # what was signed of the others may be gone as well
        try:
            await self._publish()
            if self._prev is not None and await self._journal.size() > self._full_at:
                await self._begin_anew()
                await self._publish()
        except BusUnavailable:
            self._published = None  # when NATS is back it may have lost what it had
            raise

    async def _open(self) -> bool:
        """Resume at the end of the journal; False where that is not what the log has."""
        last = await self._journal.last()
        if last is None:
            self._prev, self._positions = FIRST, {}
            return True
        head, line = last
        if await is_restored(self._log, head):
            if not self._told:
                log.warning(
                    "heads_paused",
                    reason=f"the log is not the one that was signed at {head.at}: an older state of "
                    "the database was put back",
                    hint="`navi restored` acknowledges it; until then nothing is signed",
                )
                self._told = True
            return False
        self._told = False
        self._positions = {int(name): position for name, position in head.positions.items()}
        self._prev = link_of(line)
        return True

    async def _sign_partition(self, partition: int) -> None:
        grown: Grown = {}
        reached = signed = self._positions.get(partition, 0)
        head = reached + 1
        while reached < head:
            page = await self._log.read_all(partition, after=reached, limit=PAGE_ROWS)
            if page.head < reached:
                self._prev = None  # put back while this process ran: looked at anew
                return
            if page.reached == reached:
                break
            for row in page.rows:
                if len(grown) == MAX_SESSIONS and row.session_id not in grown:
                    await self._write(partition, row.position - 1, grown)
                    signed, grown = row.position - 1, {}
                grown[row.session_id] = (row.seq, row.hash.hex())
            reached, head = page.reached, page.head
        if reached > signed:
            await self._write(partition, reached, grown)

    async def _write(self, partition: int, position: int, grown: Grown) -> None:
        assert self._prev is not None  # noqa: S101 - opened before
        positions = {**self._positions, partition: position}
        line = self._encode(positions, grown, self._prev)
        self._prev = None  # whether a line was written that fails here, the journal will tell
        await self._journal.append(line)
        self._prev, self._positions = link_of(line), positions

    async def _begin_anew(self) -> None:
        """Name all sessions once, in lines that take the place of those before them."""
        assert self._prev is not None  # noqa: S101 - just signed
        sessions = {
            head.session_id: (head.seq, head.hash.hex())
            for head in await self._log.sessions()
            if head.seq > 0
        }
        self._full_at = max(FULL_BYTES, MUCH_LONGER * len(sessions) * SESSION_BYTES)
        if await self._journal.size() <= self._full_at:
            return
        lines: list[bytes] = []
        prev, every = self._prev, sorted(sessions.items())
        for at in range(0, max(len(every), 1), MAX_SESSIONS):
            part = dict(every[at : at + MAX_SESSIONS])
            lines.append(self._encode(self._positions, part, prev, anew=True if at == 0 else UNSET))
            prev = link_of(lines[-1])
        self._prev = self._published = None
        self._began = 0  # all lines up to here are published
        if await self._journal.begin_anew(lines):
            self._prev, self._published = prev, 0
            log.info("heads_begun_anew", sessions=len(sessions))
        else:
            self._full_at *= 2

    def _encode(
        self,
        positions: dict[int, int],
        sessions: Grown,
        prev: str,
        *,
        anew: Literal[True] | UnsetType = UNSET,
    ) -> bytes:
        head = SignedHead(
            log_id=self._log_id,
            at=format_at(self._clock.now()),
            positions={str(name): positions[name] for name in sorted(positions)},
            sessions=sessions,
            prev=prev,
            public_key=self._signer.public_key,
            anew=anew,
        )
        return encode_head(head, self._signer.sign)

    async def _publish(self) -> None:
        if self._published is None:
            assert self._began is not None  # noqa: S101 - the lock is held
            end = await self._journal.end_of(await self._bus.last())
            # A line of another machine is not in this file: what was written since follows it.
            self._published = self._began if end is None else end
        while True:
            lines, end = await self._journal.read(self._published)
            if end == self._published:
                return
            for line in lines:
                await self._bus.publish(line)
            self._published = end
