"""uvicorn's WebSocket protocol with bursts of frames in one write, and bounded closing.

The server's frames carry no mask, so that a frame is a few bytes before the payload: framing here and
writing a burst in one piece costs a tenth of a call of ``send`` a frame (``bench/websocket.py``).
"""

import asyncio
import struct
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import msgspec
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import StatusLike

from navi.flag import Flag
from navi.http.requests.errors import PROBLEM_JSON, RequestRefused, answer_of
from navi.http.server.stall_timer import StallTimer

FRAMES_EXTENSION = "navi.frames"  # in scope["extensions"] of a server that takes joined frames
CLOSE_SECONDS = 5.0  # for a peer to take the close frame and answer it
STALL_SECONDS = 30.0  # without taking one byte, while bytes wait for it

_TEXT = 0x81  # FIN and opcode 1 (RFC 6455, section 5.2)


def join_frames(payloads: Sequence[bytes]) -> bytes:
    """Text frames with these payloads, one each, UTF-8."""
    parts: list[bytes] = []
    for payload in payloads:
        parts.append(_head(len(payload)))
        parts.append(payload)
    return b"".join(parts)


def _head(length: int) -> bytes:
    if length < 126:
        return bytes((_TEXT, length))
    if length < 65536:
        return struct.pack("!BBH", _TEXT, 126, length)
    return struct.pack("!BBQ", _TEXT, 127, length)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Received:
    """What an application receives, in order: as much of ``asyncio.Queue`` as is used, in a tenth of its memory."""

    __slots__ = ("_filled", "_messages")

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._filled = Flag()

    def put_nowait(self, message: Any) -> None:
        self._messages.append(message)
        self._filled.set()

    def empty(self) -> bool:
        return not self._messages

    async def get(self) -> Any:
        while not self._messages:
            self._filled.clear()
            await self._filled.wait()
        return self._messages.pop(0)


class BurstWebSocketProtocol(WebSocketsSansIOProtocol):
    """Takes ``{"type": "websocket.send", "frames": bytes}``: frames as ``join_frames`` makes them.

    Sound only without permessage-deflate, which ``serve`` switches off: extensions would have to see
    the payloads. A connection that does not take its close frame, or takes nothing at all, is cut.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue: Any = _Received()
        self.writable: Any = Flag()
        self.writable.set()
        self._stall_timer: StallTimer | None = None
        self.conn.reject = self._problem

    # --- writing ---

    async def send(self, message: Any) -> None:
        """Send an ASGI event; waits while the transport holds more than its high-water mark."""
        if message["type"] == "websocket.close" and self.handshake_complete:
            # Without waiting for a peer that may never read: the frame queues behind what it has.
            self._say_close(message.get("code", 1000), message.get("reason") or "")
            return
        frames = message.get("frames")
        if frames is None:
            await super().send(message)
            if message["type"] == "websocket.accept":
                self.request = self.response = cast("Any", None)  # 3 KiB that nobody asks for again
            if message["type"] == "websocket.http.response.body":
                self.handshake_complete = (
                    True  # it was refused: uvicorn would look for one more end
                )
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        self.transport.write(frames)

    def _say_close(self, code: int, reason: str) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self._flush_and_linger()

    def _flush_and_linger(self) -> None:
        """Flush the protocol, and abort the connection if the peer does not close it.

        The transport stays open meanwhile: closing it with bytes unread makes the kernel send a
        reset, which can overtake the close frame.
        """
        self.stop_keepalive()
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._abort_later()

    def _abort_later(self) -> None:
        """Abort the connection if it is still there by then: to close it waits for a peer that takes what waits."""
        if self.close_timer is None and not self.disconnected:
            self.close_timer = self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _problem(self, status: StatusLike, text: str) -> Response:
        """The answer to a handshake that is none."""
        problem = answer_of(RequestRefused(HTTPStatus(status), text.strip())).problem
        body = msgspec.json.encode(problem).decode()
        response = ServerProtocol.reject(self.conn, status, body)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = PROBLEM_JSON
        return response

    # --- reading ---

    def send_receive_event_to_app(self) -> None:
        """Hand a whole message on; text that is none ends the connection."""
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            self._say_close(1007, "a text frame has to be UTF-8")
            return
        super().send_receive_event_to_app()

    def handle_connect(self, event: Request) -> None:
        """Begin a connection, and tell the application that it may join frames."""
        super().handle_connect(event)
        if not self.close_sent:
            # uvicorn lets an application see only what it knows itself.
            extensions: Any = self.scope.get("extensions", {})
            extensions[FRAMES_EXTENSION] = {}

    def data_received(self, data: bytes) -> None:
        """Parse received data; after a broken frame it is dropped."""
        if self.close_sent and self.conn.parser_exc is not None:
            return
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            # websockets refuses some requests before there is one, and uvicorn keeps the answer.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_parser_exception(self) -> None:
        """Answer a broken or oversized frame with its close code (1002, 1007, 1009)."""
        if self.conn.close_sent is not None:
            close = self.conn.close_sent
            self.queue.put_nowait(
                {"type": "websocket.disconnect", "code": close.code, "reason": close.reason}
            )
        self._flush_and_linger()
        self.transport.write_eof()  # no close of the peer's is understood any more

    def handle_close(self, event: Frame) -> None:
        """Answer the peer's close frame, or take its answer to ours."""
        super().handle_close(event)
        self._abort_later()

    def eof_received(self) -> None:
        """The peer sends nothing more."""
        self.transport.close()
        self._abort_later()

    # --- ends ---

    def keepalive_timeout(self) -> None:
        """Send away a peer that has not answered a ping."""
        self._say_close(1011, "no answer to a ping")

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application has ended, and uvicorn has closed what was open."""
        super().on_task_complete(task)
        self._abort_later()

    def shutdown(self) -> None:
        """Send the client away: the server ends."""
        if self.handshake_complete and not self.close_sent:
            self._say_close(1001, "the server is shutting down")
        elif not self.handshake_complete:
            super().shutdown()

    def pause_writing(self) -> None:
        """Watch a peer that leaves bytes waiting."""
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = StallTimer(
                self.transport, seconds=STALL_SECONDS, stalled=self._stalled
            )

    def resume_writing(self) -> None:
        """The peer has taken nearly all of it."""
        super().resume_writing()
        self._stop_stall_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        self._stop_stall_timer()
        super().connection_lost(exc)
        # Both hold what holds them: without that all of the connection is gone with its last task, and
        # need not wait until the garbage collector looks through the whole process.
        self.conn.parser.close()
        del self.conn.reject

    def _stalled(self) -> None:
        self._stall_timer = None
        self._say_close(1013, "takes nothing; come back with the last seq")

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
