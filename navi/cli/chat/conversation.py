"""Follow a session over its WebSocket: every event once, with reconnects."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime

import msgspec
from msgspec import Raw, Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.protocol import State

from navi.adapters.tls import trust_over_tls
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.remote import bearer
from navi.client.connection import LIMITED, Connection
from navi.client.errors import NaviError, Unavailable
from navi.client.open_turn import before_open_turn
from navi.client.retry import Retry
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.event_codec import decode_data
from navi.domain.vocabulary.events import ApprovalDecided, Envelope, UserMessageReceived
from navi.domain.vocabulary.ids import CallId, EventId, MessageId, SessionId, SubagentId, TurnId
from navi.http.requests.decisions import DecisionBody
from navi.http.requests.validation import validated_message

OPEN_SECONDS = 5.0
# Seconds after which it is given up: without a connection, or of what the server does not take now.
TIMEOUT = 60.0
MAX_FRAME_BYTES = 1024 * 1024
UNKNOWN_SESSION, TOO_LONG = 4404, 1009  # codes of closing
_STOP = b'{"type":"stop"}'
SERVER_ERROR = 500  # from here on it is the server's trouble, and passes
# Codes of error frames after which the same is taken later. With the first of them it may be stored already.
PASSING = ("unavailable", "limited", "too_many_waiting")


class Connected(Struct, frozen=True):
    """Connected; ``running`` is whether a turn is open, ``seq`` the head of the log."""

    running: bool
    seq: int = 0


class Disconnected(Struct, frozen=True):
    """The connection was lost; reconnecting."""

    reason: str


class EventReceived(Struct, frozen=True):
    """An event of the session."""

    envelope: Envelope


class MessageRefused(Struct, frozen=True):
    """The server refused a frame."""

    message: str


class Postponed(Struct, frozen=True):
    """The server does not take something now; it is sent again."""

    message: str


class DecisionRefused(Struct, frozen=True):
    """The server refused a decision on a tool call: it was decided on already, or is not as it has to be."""

    message: str


Update = Connected | Disconnected | EventReceived | MessageRefused | Postponed | DecisionRefused


class _Frame(Struct, frozen=True):
    """Whatever the server sends; only an envelope has ``data``."""

    type: str
    seq: int = 0
    id: str = ""
    v: int = 1
    at: datetime | None = None
    turn_id: str | None = None
    subagent_id: str | None = None
    data: Raw = Raw(b"")
    running: bool = False
    code: str = ""
    message: str = ""
    retry_after: float | None = None
    message_id: str = ""


def check_message(content: str) -> None:
    """Refuse a message that navi refuses, in its words; it cuts connections where one is far too long.

    Raises:
        CommandFailed: it is empty, has a NUL, or is longer than a message may be.
    """
    try:
        validated_message(content=content, files=(), mode="queue", message_id=None)
    except BadInput as error:
        raise CommandFailed(str(error)) from error


class Conversation:
    """A session; iterate over ``updates`` for its events, send and stop meanwhile."""

    def __init__(
        self,
        session_id: SessionId,
        locate: Callable[[], Awaitable[str | None]],
        *,
        token: str | None,
        after: int | None,
    ) -> None:
        """Connect later, when ``updates`` is iterated.

        Args:
            token: shows navi who asks; None where it does not want to know.
            locate: gives navi's address, for each connection anew; None where it does not run.
            after: seq of the last event that is known; None for the open turn and what is new.
        """
        self.session_id = session_id
        self._locate = locate
        self._token = token
        self._after = after
        # The head when a turn was found open, of which nothing has come yet.
        self._open_at: int | None = None
        self._socket: ClientConnection | None = None
        self._unconfirmed: dict[MessageId, bytes] = {}
        self._sent: set[MessageId] = set()  # of those: what a socket has taken, once at least
        self._stop_wanted = False
        self._stop_asked = False  # since the last message, whether or not it was sent
        self._decisions: dict[CallId, bytes] = {}
        self._postponing = Retry(TIMEOUT)  # since something was last asked for
        # When what was postponed is sent again, by the loop's clock.
        self._again_at: float | None = None

    async def decide(self, call_id: CallId, decision: DecisionBody) -> None:
        """Decide on a tool call; sent again until the decision, or another one, was seen."""
        frame = {"type": "approve", "call_id": call_id, **msgspec.structs.asdict(decision)}
        self._decisions[call_id] = msgspec.json.encode(frame)
        self._postponing.renew()
        await self._send(self._decisions[call_id])

    async def say(self, content: str, *, message_id: MessageId) -> None:
        """Send a message; it is sent again until its receipt was seen, and counts once.

        Raises:
            CommandFailed: navi would not take it, however often it is sent.
        """
        check_message(content)
        frame = {"type": "message", "content": content, "message_id": message_id}
        self._unconfirmed[message_id] = msgspec.json.encode(frame)
        self._stop_wanted = self._stop_asked = False  # it was for the turn before
        self._postponing.renew()
        await self._send_unconfirmed()

    async def stop(self) -> bool:
        """Ask for the end of the open turn; without a connection as soon as there is one.

        Behind a message that is to be sent again, which else would begin a turn after the stop.

        Returns:
            Whether there may be a turn to stop: False where a message was taken back that no server
            has seen.
        """
        self._stop_asked = True
        self._postponing.renew()
        postponed = self._again_at is not None and self._unconfirmed
        if self._socket is not None and not postponed:
            await self._send(_STOP)
            return True
        unseen = self._unconfirmed.keys() - self._sent
        for message_id in unseen:
            del self._unconfirmed[message_id]
        self._stop_wanted = not unseen
        return self._stop_wanted

    def forget_unconfirmed(self) -> None:
        """Send no more what has no receipt, nor a stop: whoever wanted it was told that it was given up."""
        self._unconfirmed.clear()
        self._stop_wanted = self._stop_asked = False

    async def updates(self) -> AsyncGenerator[Update, None]:
        """What happens, without end.

        Raises:
            CommandFailed: there is no such session, no connection for ``TIMEOUT`` seconds, or navi has
                ended it because a frame is too long.
        """
        retry = Retry(TIMEOUT)
        while True:
            reason = "navi does not run"
            try:
                url = await self._locate()
                if url is not None:
                    await self._find_open_turn(url)
                    async with self._connected(url) as socket:
                        # Raised for all codes but those of a usual end, 4404 too: `_ended` tells them apart.
                        with contextlib.suppress(ConnectionClosed):
                            while True:
                                update = await self._take(await self._next(socket))
                                if isinstance(update, Connected):
                                    retry.connected()
                                elif isinstance(update, EventReceived):
                                    retry.renew()
                                if update is not None:
                                    yield update
                    reason = self._ended(socket)
            except InvalidStatus as error:
                status = error.response.status_code
                if status < SERVER_ERROR and status != LIMITED:
                    raise CommandFailed(f"navi refuses: HTTP {status}") from error
                reason = f"navi cannot take the connection now: HTTP {status}"
            except NaviError as error:
                if not isinstance(error, Unavailable):
                    raise CommandFailed(f"navi refuses: {error}") from error
                reason = str(error)
            except (WebSocketException, OSError) as error:
                reason = str(error) or type(error).__name__
            if retry.lost():
                yield Disconnected(reason)
            try:
                await retry.wait(reason)
            except Unavailable as error:
                raise CommandFailed(f"there is no connection to navi: {reason}") from error

    async def _find_open_turn(self, url: str) -> None:
        if self._after is not None or self._open_at is None:
            return
        # Asked once, as a connection is: whoever waits looks for the address anew.
        async with contextlib.aclosing(
            Connection(
                url, token=self._token, retry_seconds=0.0, trust=trust_over_tls(url), http=None
            )
        ) as navi:
            self._after = await before_open_turn(navi, self.session_id, head=self._open_at)

    @contextlib.asynccontextmanager
    async def _connected(self, url: str) -> AsyncGenerator[ClientConnection, None]:
        query = "" if self._after is None else f"?after={self._after}"
        address = f"{url.replace('http', 'ws', 1)}/ws/sessions/{self.session_id}{query}"
        async with connect(
            address,
            ssl=trust_over_tls(url),
            proxy=None,
            compression=None,
            additional_headers=bearer(self._token),
            open_timeout=OPEN_SECONDS,
            close_timeout=1,
            max_size=MAX_FRAME_BYTES,
        ) as socket:
            self._socket = socket
            try:
                yield socket
            finally:
                self._socket = None
                self._again_at = None  # the next connection begins with it

    async def _next(self, socket: ClientConnection) -> str | bytes:
        """The next frame; meanwhile what was postponed is sent again."""
        while True:
            try:
                async with asyncio.timeout_at(self._again_at):
                    return await socket.recv()
            except TimeoutError:
                await self._send_again()

    def _ended(self, socket: ClientConnection) -> str:
        if socket.close_code == UNKNOWN_SESSION:
            raise CommandFailed(f"no session {self.session_id}")
        if socket.close_code == TOO_LONG:
            self._decisions.clear()  # as what was said: no connection takes it
            raise CommandFailed("what was sent is longer than navi takes in one frame")
        return socket.close_reason or "the connection was closed"

    async def _take(self, data: str | bytes) -> Update | None:
        frame = msgspec.json.decode(data, type=_Frame)
        if bytes(frame.data):
            return EventReceived(self._envelope(frame))
        match frame.type:
            case "ready":
                if self._after is None and frame.running:
                    self._open_at = frame.seq
                elif self._after is None:
                    self._after = frame.seq
                await self._send_again()
                return Connected(running=frame.running, seq=frame.seq)
            case "receipt":
                self._unconfirmed.pop(MessageId(frame.message_id), None)
                return None
            case "error" if frame.code in PASSING:
                return self._postpone(frame)
            case "error":
                return self._refuse(frame.message)
            case _:
                return None

    def _postpone(self, frame: _Frame) -> Update | None:
        if not (self._unconfirmed or self._decisions or self._stop_asked):
            return None  # it was stored all the same: its event came first
        first = self._postponing.lost()
        try:
            pause = self._postponing.pause(frame.message, seconds=frame.retry_after)
        except Unavailable:
            return self._refuse(frame.message)
        self._again_at = asyncio.get_running_loop().time() + pause
        self._stop_wanted = self._stop_asked
        return Postponed(frame.message) if first else None

    def _refuse(self, message: str) -> Update:
        # What is refused now is refused each time.
        if self._decisions and not self._unconfirmed:
            self._decisions.clear()
            return DecisionRefused(message)
        self._unconfirmed.clear()
        return MessageRefused(message)

    def _envelope(self, frame: _Frame) -> Envelope:
        event = decode_data(frame.type, frame.v, bytes(frame.data))
        if isinstance(event, UserMessageReceived):
            self._unconfirmed.pop(event.message_id, None)
        if isinstance(event, ApprovalDecided):
            self._decisions.pop(event.call_id, None)
        self._after = frame.seq
        assert frame.at is not None  # noqa: S101 - every envelope has it
        return Envelope(
            session_id=self.session_id,
            seq=frame.seq,
            id=EventId(frame.id),
            at=frame.at,
            turn_id=None if frame.turn_id is None else TurnId(frame.turn_id),
            subagent_id=None if frame.subagent_id is None else SubagentId(frame.subagent_id),
            event=event,
        )

    async def _send_again(self) -> None:
        """Send what has no answer yet: messages, decisions, and the stop behind them."""
        self._again_at = None
        await self._send_unconfirmed()
        for decision in tuple(self._decisions.values()):
            await self._send(decision)
        if self._stop_wanted:
            self._stop_wanted = False
            await self._send(_STOP)

    async def _send_unconfirmed(self) -> None:
        for message_id, frame in tuple(self._unconfirmed.items()):
            # One that has ended while nobody looked takes nothing.
            if self._socket is not None and self._socket.state is State.OPEN:
                self._sent.add(message_id)
            await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        if self._socket is not None:
            # Where it is lost just now, the next connection sends it again.
            with contextlib.suppress(WebSocketException, OSError):
                await self._socket.send(frame, text=True)
