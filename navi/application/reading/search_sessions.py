"""Search an owner's sessions: what was said in them, and their names.

As every read it is up to date: what the stored rows do not have yet is folded from the log.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from navi.application.reading.catalogue import (
    StoredList,
    changed_since,
    folds_behind,
    stored_list,
)
from navi.domain.reading.search import Question, Snippet, closeness, is_said, said_with, snippet_of
from navi.domain.session.session import Session
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import NamedRow, ReadModels, SaidRow
from navi.projections.messages import Messages
from navi.projections.sessions import Sessions

Role = Literal["user", "assistant", "name"]


class Found(Struct, frozen=True, kw_only=True):
    """A message that fits, or a session whose name does.

    Attributes:
        name: of the session.
        seq: of the message; None for a name.
        at: of the message; of a name when the session was last active.
    """

    session_id: SessionId
    name: str | None
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

    Of a question that very many messages or names fit, the newest of them.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    sessions = await _OwnSessions.of(log, read_models, owner)
    said = await _said(log, read_models, question, owner)
    named = await sessions.named(question)
    names = await sessions.names({row.session_id for row in said})
    there = [row for row in said if row.session_id in names]

    def best() -> tuple[Found, ...]:
        return tuple(
            Found(
                session_id=hit.session_id,
                name=hit.text if hit.seq is None else names[hit.session_id],
                seq=hit.seq,
                role=hit.role,
                snippet=snippet_of(question, hit.text),
                at=hit.at,
            )
            for hit in _ranked(question, there, named)[:limit]
        )

    return await asyncio.to_thread(best)  # many words in many long texts take seconds


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
    """The names of an owner's sessions as they are now; deleted sessions are not there."""

    def __init__(
        self,
        read_models: ReadModels,
        owner: Owner,
        base: StoredList,
        moved: Mapping[SessionId, Session],
    ) -> None:
        self._read_models = read_models
        self._owner: Owner = owner
        self._version = base.version
        self._moved = moved

    @classmethod
    async def of(cls, log: PartitionedLog, read_models: ReadModels, owner: Owner) -> "_OwnSessions":
        base = await stored_list(read_models)
        moved = await changed_since(log, read_models, base, owner=owner)
        return cls(read_models, owner, base, moved)

    async def named(self, question: Question) -> Sequence[NamedRow]:
        """Those whose name fits."""
        stored = await self._read_models.find_named(
            self._version, owner=self._owner, question=question
        )
        named = [row for row in stored if row.session_id not in self._moved]
        for session_id, session in self._moved.items():
            listing = Sessions().listing(session)
            if listing is not None and session.name and is_said(question, session.name):
                last_active = listing.last_active
                named.append(
                    NamedRow(session_id=session_id, name=session.name, last_active=last_active)
                )
        return named

    async def names(self, session_ids: Collection[SessionId]) -> Mapping[SessionId, str | None]:
        """The names of those that are there."""
        stored = [session_id for session_id in session_ids if session_id not in self._moved]
        names = await self._read_models.names(self._version, owner=self._owner, sessions=stored)
        moved = {
            session_id: session.name
            for session_id, session in self._moved.items()
            if Sessions().listing(session) is not None
        }
        return {**names, **moved}


def _ranked(question: Question, said: Sequence[SaidRow], named: Sequence[NamedRow]) -> list[_Hit]:
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
        hits.append(
            _Hit(
                session_id=session.session_id,
                seq=None,
                role="name",
                text=session.name,
                at=session.last_active,
                closeness=closeness(question, session.name),
            )
        )
    return sorted(hits, key=lambda hit: hit.rank, reverse=True)
