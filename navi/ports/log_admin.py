"""Administration of the event log: which sessions there are, restore, erase, prune."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from navi.domain.log.export import ExportedEvent
from navi.domain.vocabulary.events import Origin
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.event_log import EventLog
from navi.ports.log_partitions import Page, PartitionedLog


class Pruned(Struct, frozen=True, kw_only=True):
    """What pruning did to a stretch of a log partition.

    Attributes:
        reached: the last position that was looked at.
        head: the last position of the partition at that moment.
        deltas: how many lost their text.
        bytes: of payload that they had.
    """

    reached: int
    head: int
    deltas: int
    bytes: int


class SessionHead(Struct, frozen=True, kw_only=True):
    """A session as the log's registry has it, and where it ends.

    Attributes:
        forked_from: the stream that its first event goes on from; None where it began by itself.
        base_hash: of that event, 32 zero bytes where there is none.
        seq: of its last event.
        hash: of its last event.
    """

    session_id: SessionId
    owner: Owner
    forked_from: Origin | None
    base_hash: bytes
    seq: int
    hash: bytes


class RestoredSession(Struct, frozen=True, kw_only=True):
    """A session to import; like `SessionHead`, without events."""

    session_id: SessionId
    owner: Owner
    forked_from: Origin | None
    base_hash: bytes


class LogRegistry(EventLog, Protocol):
    """A log that tells which sessions are in it, and which are forks of which."""

    async def sessions(
        self, session_ids: Sequence[SessionId] | None = None
    ) -> Sequence[SessionHead]:
        """Some sessions, or all, with their heads, in order of id.

        Some as a snapshot; of all, those that begin meanwhile may be there or not.
        """
        ...

    async def forks_of(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """The sessions that were forked from this one itself, deleted ones too."""
        ...

    async def sessions_of(self, owner: Owner) -> tuple[SessionId, ...]:
        """Every stream of an owner, deleted sessions and the owner's own stream too."""
        ...


class LogErasure(PartitionedLog, LogRegistry, Protocol):
    """A log whose events can be erased and pruned: content goes; places, digests and links stay."""

    async def find(
        self, partition: int, *, after: int, limit: int, owner: Owner, parts: Sequence[str]
    ) -> Page:
        """The facts of an owner, among the next ``limit`` positions, that say a part or have to do with erasing.

        Those are the facts that have lost their words, and every ``content_erased``.

        Args:
            parts: as they stand in the JSON of a payload; one of them is enough.
        """
        ...

    async def erase(self, session_id: SessionId, payloads: Mapping[int, bytes]) -> None:
        """Erase events: replace their payloads, by seq, and remove their salts.

        The events keep their places, their digests and their links, so the chain still verifies, and
        nothing of the old payloads can be guessed back.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def prune(
        self,
        partition: int,
        *,
        after: int,
        limit: int,
        before: datetime,
        session_id: SessionId | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Prune delta text of finished calls, among the next ``limit`` positions.

        Their places, digests and links stay.

        Args:
            before: only of deltas that are older.
            session_id: only of deltas of this session's own.
            dry_run: change nothing, say what would be.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def texts_in_use(
        self, hashes: Sequence[str], *, besides: Collection[SessionId]
    ) -> frozenset[str]:
        """Which of those hashes of kept texts model calls and pictures of any other session name.

        Reads the whole log, in steps: asked once for many.
        """
        ...


class LogRestore(LogRegistry, Protocol):
    """A log that sessions can be imported into."""

    async def restore(
        self,
        sessions: Sequence[RestoredSession],
        events: AsyncGenerator[Sequence[ExportedEvent], None],
    ) -> int:
        """Import sessions unchanged, all or nothing; gives how many events.

        Ids, seqs, moments, payloads and links stay as they are, and are not checked here; the events
        stand at the end of the log, in the order in which they come.

        Args:
            sessions: none of them in the log; origins before their forks.
            events: in batches, session by session, in order of seq; what they raise ends it all.

        Raises:
            AlreadyThere: one of the sessions is in the log.
            LogUnavailable: Postgres does not answer; whether it was all recorded is unknown.
        """
        ...


class LogBackend(LogErasure, LogRestore, Protocol):
    """All that an implementation offers; every one passes ``tests/contracts/event_log.py``."""
