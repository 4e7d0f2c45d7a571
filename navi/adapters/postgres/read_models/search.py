"""Search stored messages and names of sessions by their words."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from navi.adapters.postgres.connect import ReadPool, fetch
from navi.domain.reading.search import Question, Term
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_models import SaidRow

MAX_HITS = 500  # of the newest sessions
MAX_CHARACTERS = 1_000_000  # of them together

# The migration ``0012_search_said`` says why places come first and what stands there second.
_FIND_SAID = """
    select session_id::text, key, message ->> 'role' as role, message ->> 'at' as at, text from (
      select f.nth, f.session_id, f.key, navi.readable(r.row) as message, said.text,
             sum(length(said.text)) over (order by f.nth) as characters
      from navi.find_said($1, $2, to_tsquery('pg_catalog.simple', $3), $4)
           with ordinality as f (session_id, key, nth)
      join navi.read_row r on r.projection = 'messages' and r.session_id = f.session_id and r.key = f.key
        and r.hidden_by is null and r.version = (
          select number from navi.serving_build where projection = 'messages' and version = $1)
      cross join lateral (select navi.said(r.row) as text) said
    ) found
    where nth = 1 or characters <= $5
    order by nth"""

_FIND_NAMED = """
    select session_id::text from navi.read_state
    where projection = 'sessions' and version = (
      select number from navi.serving_build where projection = 'sessions' and version = $1)
      and owner = $2 and last_active is not null
      and navi.words(navi.readable(state) ->> 'name') @@ to_tsquery('pg_catalog.simple', $3)
    order by last_active desc limit $4"""


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
) -> Sequence[SessionId]:
    """As ``ReadModels.find_named``."""
    rows = await fetch(reads, _FIND_NAMED, version, owner, _tsquery(question), MAX_HITS)
    return tuple(SessionId(row["session_id"]) for row in rows)


def _tsquery(question: Question) -> str:
    """The question as ``to_tsquery`` reads it; words are letters and digits, which need no escape."""
    wanted = [_term(term) for term in question.wanted]
    return " & ".join([*wanted, *(f"!{_term(term)}" for term in question.unwanted)])


def _term(term: Term) -> str:
    words = [f"'{word}'" for word in term.words]
    return f"({' <-> '.join(words)}{':*' if term.begins else ''})"
