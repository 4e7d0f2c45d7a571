"""The events of a session as server-sent events: the WebSocket's, for those who only read."""

import asyncio

from litestar import get
from litestar.types import ASGIApp, Receive, Scope, Send

from navi.http.live.event_stream import comments, data_frame, event_stream
from navi.http.live.follow_session import follow_through_outages, wait_for_drain
from navi.http.live.frames import Close
from navi.http.live.outbox import Outbox
from navi.http.requests.access import Caller, ReadableSession
from navi.http.requests.errors import Edge
from navi.http.requests.operation import AFTER, EVENT_STREAM, SEQ, operation
from navi.http.requests.query import seq_in, seq_in_header
from navi.http.requests.services import Given
from navi.ports.event_log import Recorded

LAST_EVENT_ID = "Last-Event-ID"


@get(
    "/sessions/{session_id:str}/events/stream",
    opt=operation(
        access="read",
        query=(AFTER,),
        headers=((LAST_EVENT_ID, SEQ, "goes before `after`"),),
        answers={200: None},
        answer_content=EVENT_STREAM,
        errors=(400, 404),
    ),
)
async def stream_events(
    request: Edge, readable: ReadableSession, services: Given, principal: Caller
) -> ASGIApp:
    """Envelopes as server-sent events, `id` the seq: those behind `after`, then live."""
    wanted = seq_in(request.query_params, "after")
    seen = seq_in_header(request.headers, LAST_EVENT_ID)
    outbox = Outbox(after=seen if seen is not None else wanted or 0)

    async def fill() -> Close:
        return await follow_through_outages(
            services.event_log, readable.id, outbox, head=readable.seq, frame=_frame
        )

    async def drain() -> Close:
        return await wait_for_drain(services, readable.id, outbox, asyncio.Lock())

    stream = event_stream(services, outbox, comments(outbox), fill, drain)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        with services.rates.socket(principal):  # it is held open like one
            await stream(scope, receive, send)

    return respond


def _frame(row: Recorded) -> bytes:
    return data_frame(row.wire, seq=row.seq)
