"""Search stored messages and names of sessions by their words."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from navi.adapters.postgres.connect import ReadPool, fetch
from navi.domain.reading.search import Question, Term
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_models import NamedRow, SaidRow

MAX_HITS = 200  # the newest: a log of a few dozen sessions has as many
MAX_NAMED = 100  # those that were active last
MAX_CHARACTERS = 1_000_000  # of them together

# The migration ``0017_search_newest_first`` says why the newest come first, ``0021_search_own_eras`` how only one's
# own are read; ``0012_search_said`` why it is places first, and what stands there second.
# "offset 0": each row is looked up where it stands, and taken apart once; a plan for all rows would read them all.
_FIND_SAID = """
    select session_id::text, key, message ->> 'role' as role, message ->> 'at' as at, text from (
      select f.nth, f.session_id, f.key, there.message, there.text,
             sum(length(there.text)) over (order by f.nth) as characters
      from navi.find_said($1, $2, to_tsquery('pg_catalog.simple', $3), $4)
           with ordinality as f (session_id, key, nth)
      cross join lateral (
        select navi.readable(r.row) as message, navi.said(r.row) as text from navi.read_row r
        where r.projection = 'messages' and r.session_id = f.session_id and r.key = f.key and r.hidden_by is null
          and r.version = (
            select number from navi.serving_build where projection = 'messages' and version = $1)
        offset 0) there
    ) found
    where nth = 1 or characters <= $5
    order by nth"""

_FIND_NAMED = """
    select f.session_id::text, there.name, there.last_active
    from navi.find_named($1, $2, to_tsquery('pg_catalog.simple', $3), $4)
         with ordinality as f (session_id, nth)
    cross join lateral (
      select s.name, s.last_active from navi.read_state s
      where s.projection = 'sessions' and s.session_id = f.session_id and s.version = (
        select number from navi.serving_build where projection = 'sessions' and version = $1)
      offset 0) there
    order by f.nth"""

_NAMES = """
    select wanted.session_id::text, there.name from unnest($3::uuid[]) as wanted (session_id)
    cross join lateral (
      select s.name, s.owner, s.last_active from navi.read_state s
      where s.projection = 'sessions' and s.session_id = wanted.session_id and s.version = (
        select number from navi.serving_build where projection = 'sessions' and version = $1)
      offset 0) there
    where there.owner = $2 and there.last_active is not null"""


async def find_said(
    reads: ReadPool, version: int, owner: Owner, question: Question
) -> tuple[SaidRow, ...]:
    """As ``ReadModels.find_said``."""
    limits = (MAX_HITS, MAX_CHARACTERS)
    rows = await fetch(reads, _FIND_SAID, version, owner, _tsquery(question), *limits)
    return tuple(
        SaidRow(
            session_id=SessionId(row["session_id"]),
            seq=row["key"],
            role=row["role"],
            text=row["text"],
            at=msgspec.convert(row["at"], datetime),
        )
        for row in rows
    )


async def find_named(
    reads: ReadPool, version: int, owner: Owner, question: Question
) -> tuple[NamedRow, ...]:
    """As ``ReadModels.find_named``."""
    rows = await fetch(reads, _FIND_NAMED, version, owner, _tsquery(question), MAX_NAMED)
    return tuple(
        NamedRow(
            session_id=SessionId(row["session_id"]),
            name=row["name"],
            last_active=row["last_active"],
        )
        for row in rows
    )


async def names(
    reads: ReadPool, version: int, owner: Owner, sessions: Sequence[SessionId]
) -> Mapping[SessionId, str | None]:
    """As ``ReadModels.names``."""
    rows = await fetch(reads, _NAMES, version, owner, sessions)
    return {SessionId(row["session_id"]): row["name"] for row in rows}


def _tsquery(question: Question) -> str:
    """The question as ``to_tsquery`` reads it; words are letters, digits and marks, which need no escape."""
    wanted = [_term(term) for term in question.wanted]
    return " & ".join([*wanted, *(f"!{_term(term)}" for term in question.unwanted)])


def _term(term: Term) -> str:
    words = [f"'{word}'" for word in term.words]
    return f"({' <-> '.join(words)}{':*' if term.begins else ''})"
