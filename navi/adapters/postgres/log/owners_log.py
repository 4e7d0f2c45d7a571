"""The event log as one owner sees it: the second line behind every check of whose a session is."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from navi.adapters.postgres.log.session_reader import SessionReader
from navi.domain.vocabulary.events import UserMessageReceived
from navi.domain.vocabulary.ids import MessageId, Owner, SessionId
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Selection, Types
from navi.ports.log_partitions import Page, PartitionedLog


class WatchedLog(PartitionedLog, Protocol):
    """A log whose watchers may read history by another reader than its own."""

    def watch_by(
        self, reader: SessionReader, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        """As ``EventLog.watch``, with what lies behind read by ``reader``."""
        ...


class OwnersLog:
    """``PartitionedLog`` in which only one owner's sessions are.

    What is read from Postgres is read under row-level security. The recent end of the log, which is
    the same rows in memory for everybody, cannot be: there what is not the owner's is left out here.
    """

    def __init__(self, log: WatchedLog, reader: SessionReader, owner: Owner) -> None:
        """Nothing is read yet.

        Args:
            reader: on connections that show the owner's rows.
        """
        self._log = log
        self._reader = reader
        self._owner: Owner = owner

    @property
    def partitions(self) -> int:
        return self._log.partitions

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        return await self._log.append(batch)

    async def head(self, session_id: SessionId) -> int:
        head = await self._reader.head(session_id)
        return 0 if head is None else head.seq

    async def owner_of(self, session_id: SessionId) -> Owner | None:
        head = await self._reader.head(session_id)
        return None if head is None else head.owner

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        # Begins with the session's head, so that nothing in memory is looked at without it.
        return self._reader.read(session_id, after=after, until=until, types=types)

    def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        return self._reader.select(session_id, selection, until=until)

    async def find_receipt(
        self, session_id: SessionId, message_id: MessageId
    ) -> tuple[int, UserMessageReceived] | None:
        return await self._reader.find_receipt(session_id, message_id)

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async with aclosing(self._log.watch_by(self._reader, session_id, after=after)) as batches:
            async for rows in batches:
                if theirs := self._theirs(rows):
                    yield theirs

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        # Whether a position is missing can only be told of all of them.
        page = await self._log.read_all(partition, after=after, limit=limit, deltas=deltas)
        return replace(page, rows=self._theirs(page.rows))

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109 - the port's
        return await self._log.wait_beyond(partition, position, timeout=timeout)

    def _theirs(self, rows: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
        return tuple(row for row in rows if row.owner == self._owner)
