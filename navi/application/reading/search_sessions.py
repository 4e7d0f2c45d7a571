"""Search an owner's sessions: what was said in them, and their names.

As every read it is up to date: what the stored rows do not have yet is folded from the log.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from navi.application.reading.catalogue import (
    StoredList,
    changed_since,
    folds_behind,
    session_in,
    session_now,
    stored_list,
)
from navi.domain.reading.search import Question, Snippet, closeness, is_said, said_with, snippet_of
from navi.domain.session.session import Session
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels, SaidRow
from navi.projections.messages import Messages
from navi.projections.sessions import Sessions

Role = Literal["user", "assistant", "name"]


class Found(Struct, frozen=True, kw_only=True):
    """A message that fits, or a session whose name does.

    Attributes:
        seq: of the message; None for a name.
        at: of the message; of a name when the session was last active.
    """

    session: Session
    seq: int | None
    role: Role
    snippet: Snippet
    at: datetime


class _Hit(Struct, frozen=True, kw_only=True):
    session_id: SessionId
    seq: int | None
    role: Role
    text: str
    at: datetime
    closeness: int

    @property
    def rank(self) -> tuple[int, bool, datetime, SessionId, int]:
        """Larger ones come first: the closer, names, the newer."""
        return (self.closeness, self.seq is None, self.at, self.session_id, self.seq or 0)


async def search_sessions(
    log: PartitionedLog, read_models: ReadModels, question: Question, *, owner: Owner, limit: int
) -> tuple[Found, ...]:
    """What fits of the owner's sessions that are not deleted, best first: the closer, then the newer.

    Of a question that very many messages fit, those of the newest sessions.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    sessions = await _OwnSessions.of(log, read_models, owner)
    said = await _said(log, read_models, question, owner)
    named = await sessions.named(question)
    hits = await asyncio.to_thread(_ranked, question, said, named)
    found: list[Found] = []
    for hit in hits:
        session = await sessions.get(hit.session_id)
        if session is not None:
            snippet = snippet_of(question, hit.text)
            found.append(
                Found(session=session, seq=hit.seq, role=hit.role, snippet=snippet, at=hit.at)
            )
        if len(found) == limit:
            break
    return tuple(found)


async def _said(
    log: PartitionedLog, read_models: ReadModels, question: Question, owner: Owner
) -> Sequence[SaidRow]:
    """The messages that fit."""
    projection = Messages()
    positions = await read_models.positions(projection.name, projection.version)
    base = StoredList(version=projection.version, positions=positions, is_own=True)
    behind = await folds_behind(log, read_models, projection, base, owner=owner)
    rows: dict[tuple[SessionId, int], SaidRow] = {
        (row.session_id, row.seq): row
        for row in await read_models.find_said(projection.version, owner=owner, question=question)
    }
    for session_id, fold in behind.items():
        for seq, message in fold.rows.visible():
            rows.pop((session_id, seq), None)
            text = said_with(message)
            if text is not None and message.role != "tool" and is_said(question, text):
                rows[session_id, seq] = SaidRow(
                    session_id=session_id, seq=seq, role=message.role, text=text, at=message.at
                )
    return tuple(rows.values())


class _OwnSessions:
    """The sessions of an owner as they are now, looked up once each; deleted ones are not there."""

    def __init__(
        self,
        log: PartitionedLog,
        read_models: ReadModels,
        owner: Owner,
        base: StoredList,
        moved: dict[SessionId, Session],
    ) -> None:
        self._log = log
        self._read_models = read_models
        self._owner: Owner = owner
        self._base = base
        self._moved = moved
        self._known: dict[SessionId, Session | None] = {}

    @classmethod
    async def of(cls, log: PartitionedLog, read_models: ReadModels, owner: Owner) -> "_OwnSessions":
        base = await stored_list(read_models)
        moved = await changed_since(log, read_models, base, owner=owner)
        return cls(log, read_models, owner, base, moved)

    async def get(self, session_id: SessionId) -> Session | None:
        if session_id not in self._known:
            session = self._moved.get(session_id) or await self._stored(session_id)
            is_there = session.owner == self._owner and Sessions().listing(session) is not None
            self._known[session_id] = session if is_there else None
        return self._known[session_id]

    async def named(self, question: Question) -> Sequence[Session]:
        """Those whose name fits."""
        stored = await self._read_models.find_named(
            self._base.version, owner=self._owner, question=question
        )
        sessions = [await self.get(session_id) for session_id in {*stored, *self._moved}]
        return [
            session
            for session in sessions
            if session is not None and session.name and is_said(question, session.name)
        ]

    async def _stored(self, session_id: SessionId) -> Session:
        session = None
        if self._base.is_own:
            kept = await self._read_models.load(
                Sessions.name, self._base.version, session_id, rows_limit=0
            )
            session = None if kept is None else session_in(session_id, kept)
        return session or await session_now(self._log, self._read_models, session_id)


def _ranked(question: Question, said: Sequence[SaidRow], named: Sequence[Session]) -> list[_Hit]:
    """All hits, the best one first."""
    hits = [
        _Hit(
            session_id=row.session_id,
            seq=row.seq,
            role=row.role,
            text=row.text,
            at=row.at,
            closeness=closeness(question, row.text),
        )
        for row in said
    ]
    for session in named:
        assert session.name is not None and session.last_active is not None  # noqa: S101, PT018 - they are named and listed
        hits.append(
            _Hit(
                session_id=session.id,
                seq=None,
                role="name",
                text=session.name,
                at=session.last_active,
                closeness=closeness(question, session.name),
            )
        )
    return sorted(hits, key=lambda hit: hit.rank, reverse=True)
