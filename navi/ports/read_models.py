"""Read models: what is stored of each session, read, built and dropped."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from navi.domain.reading.search import Question
from navi.domain.vocabulary.ids import Owner, SessionId


class StoredState(Struct, frozen=True, kw_only=True):
    """A read model of one session as it is stored: everything up to ``seq`` is folded in.

    Attributes:
        seq: 0 where all but its place in lists and its name was forgotten.
        state: the projection's small state, JSON as the projection encodes it; at seq 0 it cannot be decoded.
        rows: visible rows by key, in order of key, JSON.
        hidden: hidden rows as (key, hidden by, JSON), in order of key; only where they were asked for.
    """

    seq: int
    state: bytes
    rows: tuple[tuple[int, bytes], ...] = ()
    hidden: tuple[tuple[int, int, bytes], ...] = ()


class SaidRow(Struct, frozen=True, kw_only=True):
    """A row of the projection ``messages`` with what a person or the agent said."""

    session_id: SessionId
    seq: int
    role: Literal["user", "assistant"]
    text: str
    at: datetime


class NamedRow(Struct, frozen=True, kw_only=True):
    """A state of the projection ``sessions`` that is listed, and has a name."""

    session_id: SessionId
    name: str
    last_active: datetime


class ParkedEvent(Struct, frozen=True, kw_only=True):
    """An event that a projection cannot fold, and skips."""

    session_id: SessionId
    seq: int
    type: str
    error: str


class Build(Struct, frozen=True, kw_only=True):
    """One build of a read model from the log.

    Attributes:
        version: of the projection.
        state: of a version one at the most is ``live``, it serves, and one at the most is
            ``building``; that one serves, as far as it is, where none is live. ``retired`` ones are
            being thrown away.
        positions: how far it is, by partition; none where it has not begun.
    """

    projection: str
    number: int
    version: int
    state: Literal["building", "live", "retired"]
    positions: Mapping[int, int]


class BuildList(Protocol):
    """Which builds of read models there are."""

    async def builds(self, projections: Sequence[str]) -> Sequence[Build]:
        """All builds of some projections, those of other versions of navi too, by name and number."""
        ...


class ReadModels(BuildList, Protocol):
    """Stored read models, as readers see them: caches of the log, safe to throw away.

    Reads are by version and give what stands in the build that serves, of one moment each: a switch
    falls between two reads, and the later one is never of an earlier position.
    """

    async def load(
        self,
        projection: str,
        version: int,
        session_id: SessionId,
        *,
        rows_after: int | None = None,
        rows_limit: int | None = None,
        hidden: bool = False,
    ) -> StoredState | None:
        """State and visible rows of one session, of one moment; None where nothing is stored.

        Args:
            rows_after: only rows with a larger key.
            rows_limit: how many visible rows at the most; None for all, 0 for the state alone.
            hidden: give the hidden rows too, all of them.
        """
        ...

    async def last_row(
        self, projection: str, version: int, session_id: SessionId, *, until: int
    ) -> tuple[int, bytes] | None:
        """The visible row with the largest key up to ``until``, with that key; None where there is none."""
        ...

    async def list_sessions(
        self,
        projection: str,
        version: int,
        *,
        owner: Owner | None,
        after: tuple[bool, datetime, SessionId] | None,
        limit: int | None,
    ) -> Sequence[tuple[SessionId, StoredState]]:
        """States (without rows) of listed sessions: pinned first, then by ``last_active``, newest first.

        Args:
            owner: whose; None for everybody's.
            after: ``(pinned, last_active, id)`` of the last one the caller has; ties go by id.
        """
        ...

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        """States (without rows) of sessions of all owners whose listing is unfinished, some at a time.

        Args:
            after: the last one that the caller has had; they are in order of their ids.
        """
        ...

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        """Likewise of those whose listing is owing."""
        ...

    async def find_marks(
        self, version: int, *, owner: Owner, marks: Sequence[str]
    ) -> Sequence[tuple[SessionId, str]]:
        """The owner's sessions that have come by some marks, with each of these.

        Args:
            version: of the projection ``conversation``, whose rows these are.
        """
        ...

    async def find_said(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[SaidRow]:
        """What was said in the owner's sessions and fits, the newest first, bounded.

        Args:
            version: of the projection ``messages``, whose rows these are.
        """
        ...

    async def find_named(
        self, version: int, *, owner: Owner, question: Question
    ) -> Sequence[NamedRow]:
        """The owner's listed sessions whose name fits, those that were active last first, bounded.

        Args:
            version: of the projection ``sessions``, whose states these are.
        """
        ...

    async def names(
        self, version: int, *, owner: Owner, sessions: Sequence[SessionId]
    ) -> Mapping[SessionId, str | None]:
        """The names of those among some sessions that are listed and the owner's.

        Args:
            version: of the projection ``sessions``, whose states these are.
        """
        ...

    async def positions(self, projection: str, version: int) -> Mapping[int, int]:
        """How far the projection is in each partition."""
        ...
