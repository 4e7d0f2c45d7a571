"""Answer a request with server-sent events, out of an outbox that bounds what waits for the client.

Tasks as of a WebSocket: some fill the outbox, one empties it into the answer, one waits for the client
to go, and the first to end ends the answer. The format is that of HTML, section 9.2.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from litestar.types import ASGIApp, Receive, Scope, Send

from navi.domain.vocabulary.errors import NaviError
from navi.http.live.follow_session import wait_for_end_of_access
from navi.http.live.frames import BROKEN, Close
from navi.http.live.outbox import Outbox
from navi.http.requests.access import principal_of
from navi.http.requests.bodies import NO_STORE, body_part, client_gone
from navi.http.requests.head_only import is_head_only
from navi.http.requests.services import Services
from navi.log_error import log_error
from navi.race import race

log = structlog.get_logger()

COMMENT = b": navi\n\n"
COMMENT_SECONDS = 10.0  # between comments: proxies cut what is silent, and 15 are promised

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", NO_STORE.encode()),
    (b"x-accel-buffering", b"no"),
]

Fill = Callable[[], Awaitable[Close]]


def event_stream(
    services: Services,
    outbox: Outbox,
    *fill: Fill,
    headers: Mapping[str, str] | None = None,
    last_word: Callable[[], bytes] = bytes,
) -> ASGIApp:
    """The answer: what is put into the outbox, until it is finished or one of ``fill`` ends.

    It ends as well once whoever asked may not do so any more, or has gone. ``outbox.ending`` says then what
    has ended it; None where the client has gone before that.

    Args:
        headers: beside those of every stream.
        last_word: gives what the stream ends with, whatever has ended it.
    """
    named = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        start: Any = {"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *named]}
        await send(start)
        if not is_head_only(scope):
            try:
                ending = await race(
                    *(_fill(one) for one in fill),
                    _write(send, outbox),
                    _client_gone(receive),
                    wait_for_end_of_access(services, principal_of(scope)),
                )
            except NaviError as error:
                # The status is sent: all that is left is to end, and be asked again.
                log_error(log, "event_stream_broke", error, path=scope["path"])
                ending = BROKEN
            if ending is not None:
                outbox.finish(ending)
        await send(body_part(last_word(), more=False))

    return respond


def comments(outbox: Outbox) -> Fill:
    """Fill in a comment at once, and another now and then; a client that takes nothing needs none."""

    async def fill() -> Close:
        while True:
            if not outbox.full:
                outbox.put(COMMENT)
            await asyncio.sleep(COMMENT_SECONDS)

    return fill


def data_frame(data: bytes, *, seq: int | None = None) -> bytes:
    """An event of the stream, with the ``id`` by which a client goes on where it is one of the log."""
    # A line end in JSON is white space; here it would end the field.
    lines = b"\ndata: ".join(data.splitlines())
    return b"data: %b\n\n" % lines if seq is None else b"id: %d\ndata: %b\n\n" % (seq, lines)


async def _fill(fill: Fill) -> Close | None:
    return await fill()


async def _write(send: Send, outbox: Outbox) -> Close | None:
    while frames := await outbox.take():
        await send(body_part(b"".join(frames)))
    return outbox.ending


async def _client_gone(receive: Receive) -> Close | None:
    await client_gone(receive)
    return None
