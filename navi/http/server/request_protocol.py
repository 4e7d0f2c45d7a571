"""uvicorn's HTTP protocol with deadlines: for request headers, and for peers that do not read.

h11 and not httptools: it bounds the size of headers, where httptools takes 24 MB of them, and what an
agent's requests cost is not spent in parsing.
"""

import asyncio
import re
import sys
from http import HTTPStatus
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from navi.http.requests.errors import PROBLEM_JSON, RequestRefused, answer_of
from navi.http.server.stall_timer import StallTimer

HEAD_SECONDS = 15.0  # from the first byte of a request, or from connecting, to the end of its head
LINGER_SECONDS = 2.0  # for a peer to read why it was refused
STALL_SECONDS = 30.0  # without taking one byte of an answer

_QUOTED = re.compile(r":? ?(?:bytearray\()?b(?P<quote>['\"]).*(?P=quote)\)?", re.DOTALL)
_EARLY = (h11.IDLE, h11.SEND_RESPONSE)


class DeadlineH11Protocol(H11Protocol):
    """Closes connections that stall: no complete headers, or nothing read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: StallTimer | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._cut)

    def data_received(self, data: bytes) -> None:
        """Parse received data; a started request has a deadline."""
        if self._refused:
            return
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """The answer is written; a body that nobody read may still be coming."""
        super().on_response_complete()
        self._watch_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over, with no deadline of HTTP left on it."""
        self._stop_timers()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP with a problem."""
        # uvicorn calls this while it handles h11's exception and does not pass that on.
        error = sys.exc_info()[1]
        status = HTTPStatus.BAD_REQUEST
        if isinstance(error, h11.RemoteProtocolError):
            status = HTTPStatus(error.error_status_hint)
            msg = _words_of(error)
        if self.conn.our_state in _EARLY:
            problem = answer_of(RequestRefused(status, msg)).problem
            for event in (
                h11.Response(
                    status_code=status,
                    headers=[("content-type", PROBLEM_JSON), ("connection", "close")],
                    reason=status.phrase,
                ),
                h11.Data(data=msgspec.json.encode(problem)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        # Closed once the peer has closed: with bytes unread the kernel sends a reset, which can
        # overtake the answer.
        self._refused = True
        self.transport.write_eof()
        self._stop_head_timer()
        self._head_timer = self.loop.call_later(LINGER_SECONDS, self._cut)

    def pause_writing(self) -> None:
        """Watch a peer that leaves bytes waiting."""
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = StallTimer(self.transport, seconds=STALL_SECONDS, stalled=self._cut)

    def resume_writing(self) -> None:
        """The peer has taken nearly all of it."""
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        self._stop_timers()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """A timer runs while half a request is there, or an unread body behind its answer."""
        if self._refused or self.transport.get_protocol() is not self:
            return
        theirs, ours = self.conn.their_state, self.conn.our_state
        half_head = theirs is h11.IDLE and bool(self.conn.trailing_data[0])
        unread_body = theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE)
        if not (half_head or unread_body):
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._cut)

    def _cut(self) -> None:
        self.transport.abort()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def _words_of(error: h11.RemoteProtocolError) -> str:
    """What is wrong with a request, in words; h11 quotes it as Python's ``bytearray(b'...')``."""
    return _QUOTED.sub("", str(error)).strip().rstrip(":") or "the request is not HTTP/1.1"
