"""Builds of read models: made from the log, switched, retired."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from navi.domain.reading.projection import Change, Listing
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_models import Build, BuildList, ParkedEvent, StoredState


class SessionChanges(Struct, frozen=True, kw_only=True):
    """What a batch of events changes in the read model of one session.

    Attributes:
        anew: rows stored before are thrown away first.
        listing: None where the projection has no lists or the session stands in none.
    """

    session_id: SessionId
    owner: Owner
    seq: int
    state: bytes
    changes: tuple[Change, ...]  # in order; rows are encoded (Put.row is bytes)
    anew: bool = False
    listing: Listing | None = None


class ProjectionBatch(Protocol):
    """One transaction of one build on one partition, with its checkpoint locked."""

    @property
    def position(self) -> int:
        """The position up to which the read model has the partition."""
        ...

    async def states(self, session_ids: Sequence[SessionId]) -> Mapping[SessionId, StoredState]:
        """The stored states of those sessions that have one, without their rows."""
        ...

    async def save(
        self, sessions: Sequence[SessionChanges], *, parked: Sequence[ParkedEvent], position: int
    ) -> None:
        """Store the changes, park events and move the checkpoint, in the transaction."""
        ...


class ReadModelBuilds(BuildList, Protocol):
    """Make builds of read models from the log, and let them serve."""

    def begin(
        self, projection: str, build: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        """A transaction on a build's checkpoint; None while another process holds it, or if it is retired.

        Commits when the block ends, rolls back when it raises.
        """
        ...

    async def open_build(self, projection: str, version: int) -> Build:
        """The build that serves a version; where there is none, it begins here."""
        ...

    async def rebuild(self, projection: str, version: int) -> Build:
        """Start a new build beside the serving one; gives the one under way, if any."""
        ...

    async def switch(self, projection: str, build: int) -> bool:
        """Switch to a build, and retire the one that serves, in one transaction.

        False, and nothing is done, where it is behind that one in a partition, while another process
        works on either of them, or when it is retired; True also where it serves already.
        """
        ...

    async def in_use(self, projection: str, version: int) -> None:
        """Record that a process of that version is running."""
        ...

    async def retire_others(self, projection: str, version: int, *, unused_seconds: float) -> None:
        """Retire builds of other versions that no process has used for that long.

        Does nothing before the version's own build is live.
        """
        ...

    async def drop_retired(self, *, rows: int) -> bool:
        """Delete about ``rows`` rows of retired builds; whether some are left."""
        ...
