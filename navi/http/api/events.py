"""Routes of the log: events, and requests to model servers."""

import re
from contextlib import aclosing

from litestar import Response, get
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from navi.application.reading.render_call import RenderedCall, render_call
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.events import DELTA_TYPES, JsonObject
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.http.requests.access import ReadableSession
from navi.http.requests.bodies import answer, body_part
from navi.http.requests.errors import Edge
from navi.http.requests.operation import AFTER, BEFORE, LIMIT, operation
from navi.http.requests.query import Query, limit_in, seq_in, text_in
from navi.http.requests.services import Given, PathText
from navi.ports.event_log import FACTS, EventLog, Selection, Types

MAX_TYPES = 100

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CALL = re.compile(r"[A-Za-z0-9_-]{1,64}")


class EventList(Struct, frozen=True, kw_only=True):
    """Envelopes as they stand in the log."""

    seq: int
    events: tuple[JsonObject, ...]


@get(
    "/sessions/{session_id:str}/events",
    opt=operation(
        access="read",
        query=(
            AFTER,
            BEFORE,
            LIMIT,
            ("type", {"type": "string"}, "types, separated by commas, or given several times"),
            (
                "kind",
                {"type": "string", "enum": ["fact", "delta"]},
                "only what is kept for ever, or only text in the making",
            ),
        ),
        answers={200: EventList},
        errors=(400, 404),
    ),
)
async def get_events(request: Edge, readable: ReadableSession, services: Given) -> ASGIApp:
    """Envelopes as they stand in the log, up to its head at this moment."""
    query = request.query_params
    selection = Selection(
        after=seq_in(query, "after") or 0,
        before=seq_in(query, "before"),
        limit=limit_in(query),
        types=_types_in(query),
    )
    return stored_events(services.event_log, readable.id, selection, head=readable.seq)


@get(
    "/sessions/{session_id:str}/calls/{call_id:str}/request",
    opt=operation(access="read", answers={200: RenderedCall}, errors=(404, 410)),
)
async def get_request(
    readable: ReadableSession, call_id: PathText, services: Given
) -> Response[bytes]:
    """What a model server was sent, rendered again from the log."""
    if _CALL.fullmatch(call_id) is None:
        raise NotFound(f"no model call {call_id[:100]!r} in session {readable.id}")
    rendered = await render_call(
        services.event_log, services.texts, services.renderers, readable.id, CallId(call_id)
    )
    return answer(rendered)


def _types_in(query: Query) -> Types:
    """Wanted types: ``type=a&type=b`` or ``type=a,b``, of a ``kind``; all without either."""
    named = _named_in(query)
    match text_in(query, "kind"):
        case None:
            return Types(only=named)
        case "fact":
            return Types(only=named, but=FACTS.but)
        case "delta":
            deltas = frozenset(DELTA_TYPES)
            return Types(only=deltas if named is None else deltas & named)
        case _:
            raise BadInput("kind", "is neither 'fact' nor 'delta'")


def _named_in(query: Query) -> frozenset[str] | None:
    values: list[str] = query.getall("type", [])
    types = [name for value in values for name in value.split(",")]
    if len(types) > MAX_TYPES:
        raise BadInput("type", f"names {len(types)} types, {MAX_TYPES} are allowed")
    for name in types:
        if _TYPE.fullmatch(name) is None:
            raise BadInput("type", "is not the name of an event type")
    return frozenset(types) or None


def stored_events(
    log: EventLog, session_id: SessionId, selection: Selection, *, head: int
) -> ASGIApp:
    """Stream the selected events up to ``head``, batch by batch."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send(body_part(b'{"seq":%d,"events":[' % head))
        comma = b""
        async with aclosing(log.select(session_id, selection, until=head)) as batches:
            async for batch in batches:
                await send(body_part(comma + b",".join([row.wire for row in batch])))
                comma = b","
        await send(body_part(b"]}", more=False))

    return respond
