"""The route of the search over sessions."""

from datetime import datetime
from typing import Annotated

from litestar import Response, get
from msgspec import Meta, Struct

from navi.application.reading.search_sessions import Found, Role, search_sessions
from navi.domain.reading.search import MAX_QUESTION, parse_question
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.ids import SessionId
from navi.http.requests.access import Caller
from navi.http.requests.bodies import answer
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.query import limit_in, text_in
from navi.http.requests.services import Given
from navi.http.requests.validation import MAX_LIMIT, check_words

DEFAULT_LIMIT = 20


Place = Annotated[tuple[int, ...], Meta(min_length=2, max_length=2)]


class SearchResult(Struct, frozen=True, kw_only=True):
    """A message that fits, or the name of a session that does.

    Attributes:
        name: of the session.
        seq: of the message; null where it is the session's name that fits.
        role: whose message it is, or ``name``.
        snippet: plain text around the first match, on one line, about 160 characters.
        matches: beginning and end of each match in the snippet, in Unicode code points (not in the
            UTF-16 units of JavaScript's strings: take ``Array.from(snippet)``).
        at: of the message; of a name when the session was last active.
    """

    session_id: SessionId
    name: str | None
    seq: int | None
    role: Role
    snippet: str
    matches: tuple[Place, ...]
    at: datetime


class SearchResults(Struct, frozen=True, kw_only=True):
    """What fits, best first: the whole question, its words, its last word as a beginning; the newer first."""

    results: tuple[SearchResult, ...]


@get(
    "/search",
    opt=operation(
        access="read",
        query=(
            (
                "query",
                {"type": "string", "maxLength": MAX_QUESTION},
                "words that all have to stand in it, the last one as a beginning; "
                '`"in this order"`, `-without`',
            ),
            (
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
                "how many results at the most",
            ),
        ),
        answers={200: SearchResults},
        errors=(400,),
    ),
)
async def search(request: Edge, services: Given, principal: Caller) -> Response[bytes]:
    """Search what was said in one's own sessions, and their names."""
    text = text_in(request.query_params, "query") or ""
    limit = limit_in(request.query_params) or DEFAULT_LIMIT
    check_words("query", text)
    if len(text) > MAX_QUESTION:
        raise BadInput("query", f"has {len(text)} characters, {MAX_QUESTION} are allowed")
    question = parse_question(text)
    if question is None:
        return answer(SearchResults(results=()))
    found = await search_sessions(
        services.event_log,
        services.read_models,
        question,
        owner=principal.user_id,
        limit=limit,
    )
    return answer(SearchResults(results=tuple(map(_result, found))))


def _result(found: Found) -> SearchResult:
    return SearchResult(
        session_id=found.session_id,
        name=found.name,
        seq=found.seq,
        role=found.role,
        snippet=found.snippet.text,
        matches=found.snippet.matches,
        at=found.at,
    )
