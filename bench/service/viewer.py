"""A client of one session: sees every event once and in order, times the text, comes back with its cursor."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus

import httpx
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from bench.service.mark import MARK

ENDS = ("turn_completed", "turn_stopped", "turn_failed")
BESIDE_EVENTS = ("ready", "receipt")  # a receipt answers a message that is said again
DELTAS = ("text_delta", "thinking_delta")
WAIT_SECONDS = 300.0  # for a turn, at the most
PAUSE = 0.1  # seconds before a client comes back that was sent away


class _Frame(Struct):
    type: str
    seq: int = 0
    data: Raw | UnsetType = UNSET


class _Events(Struct):
    seq: int
    events: list[Raw]


class OutOfOrder(AssertionError):
    """An event came twice, or not at all."""


asked_again: Counter[str] = Counter()  # by method, what of a session, and why


async def asked(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """The answer to a request that is repeated while navi says 503, as its clients are told to."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                answer = await client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:  # on a machine that is busy with other things
                why = type(error).__name__
            else:
                if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                    answer.raise_for_status()
                    return answer
                why = "503"
            what = path.partition("?")[0].split("/")[3:]
            asked_again[f"{method} {what[0] if what else 'session'}: {why}"] += 1
            await asyncio.sleep(PAUSE)


class Viewer:
    """What one client has seen; ``run`` follows until it is cancelled.

    Attributes:
        seq: of the last event seen, its cursor.
        delays: milliseconds from the model's writing of each piece to this client.
        closed: how often a connection ended, by close code; 1006 where it was cut.
    """

    def __init__(
        self,
        url: str,
        session_id: str,
        *,
        after: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """A client that has seen nothing yet.

        Args:
            headers: what its requests come with, where there are accounts.
        """
        self.session_id = session_id
        self.seq = after
        self.delays: list[float] = []
        self.deltas = 0
        self.first_delta: float | None = None  # on the monotonic clock, of this turn
        self.outcomes: list[str] = []
        self.received = 0  # messages
        self.refused = 0  # frames of this client
        self.closed: dict[int, int] = {}
        self.reading = asyncio.Event()
        self.reading.set()
        self._seen = sha256()
        self._after = after
        self._headers = headers
        self._url = f"{url.replace('http', 'ws', 1)}/ws/sessions/{session_id}"
        self._socket: ClientConnection | None = None
        self._news = asyncio.Condition()

    async def run(self) -> None:
        """Follow, and come back whenever the connection ends."""
        while True:
            try:
                async with connect(
                    f"{self._url}?after={self.seq}",
                    additional_headers=self._headers,
                    proxy=None,
                    compression=None,
                    max_size=2**20,
                ) as socket:
                    self._socket = socket
                    await self._follow(socket)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as ended:
                closing = ended.rcvd if isinstance(ended, ConnectionClosed) else None
                code = 1006 if closing is None else closing.code
                self.closed[code] = self.closed.get(code, 0) + 1
            finally:
                self._socket = None
            await asyncio.sleep(PAUSE)

    async def _follow(self, socket: ClientConnection) -> None:
        while True:
            await self.reading.wait()
            data = await socket.recv(decode=False)
            if self.take(data, now=time.monotonic_ns()):
                async with self._news:
                    self._news.notify_all()

    def take(self, data: bytes, *, now: int) -> bool:
        """Look at a frame; gives whether somebody may wait for it.

        Args:
            now: nanoseconds of the machine's monotonic clock.

        Raises:
            OutOfOrder: it is not the event that follows.
        """
        frame = msgspec.json.decode(data, type=_Frame)
        if frame.type in BESIDE_EVENTS:
            return True
        if frame.type == "error":
            self.refused += 1
            return True
        if frame.data is UNSET:
            raise AssertionError(f"{data!r} is no event")
        if frame.seq != self.seq + 1:
            raise OutOfOrder(f"{self.session_id}: {frame.seq} came after {self.seq}")
        self.seq = frame.seq
        self._seen.update(data)
        if frame.type in DELTAS:
            self.deltas += 1
            self.first_delta = self.first_delta or now / 1e9
            self.delays += [(now - int(at)) / 1e6 for at in MARK.findall(data)]
        elif frame.type == "user_message_received":
            self.received += 1
            return True
        elif frame.type in ENDS:
            self.outcomes.append(frame.type)
            return True
        return False

    async def connected(self) -> None:
        """Wait until there is a connection that was told it is ready."""
        async with asyncio.timeout(WAIT_SECONDS), self._news:
            await self._news.wait_for(lambda: self._socket is not None)

    async def ended(self, turns: int) -> None:
        """Wait until so many turns have ended."""
        async with asyncio.timeout(WAIT_SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.outcomes) >= turns)

    @property
    def port(self) -> int | None:
        """That its connection comes from; None where there is none."""
        socket = self._socket
        return None if socket is None else socket.local_address[1]

    async def say(self, content: str) -> None:
        """Say something, once in a session, until it is received, as a client does that is told to try again."""
        message: dict[str, object] = {"type": "message", "content": content, "message_id": "said"}
        async with asyncio.timeout(WAIT_SECONDS):
            while not self.received:
                answers = self.refused + 1
                assert await self.send(message)
                async with self._news:
                    while not self.received and self.refused < answers:
                        await self._news.wait()
                await asyncio.sleep(0 if self.received else PAUSE)

    async def send(self, frame: dict[str, object]) -> bool:
        """Send a frame; False where there is no connection."""
        if self._socket is None:
            return False
        with suppress(ConnectionClosed):
            await self._socket.send(msgspec.json.encode(frame).decode(), text=True)
            return True
        return False

    def cut(self) -> None:
        """Cut the connection, as a client does that is killed."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def missed(self, client: httpx.AsyncClient) -> str | None:
        """What this client saw that is not as the log has it; None where both are equal, byte for byte."""
        seen, digest = (
            self.seq - self._after,
            self._seen.digest(),
        )  # more may come while it is asked
        path = f"/sessions/{self.session_id}/events?after={self._after}"
        answer = await asked(client, "GET", path, headers=self._headers)
        events = msgspec.json.decode(answer.content, type=_Events).events
        return self._compared(events, seen, digest)

    def compared(self, events: Sequence[bytes | Raw]) -> str | None:
        """The same, with what the log has behind where this client began."""
        return self._compared(events, self.seq - self._after, self._seen.digest())

    def _compared(self, events: Sequence[bytes | Raw], seen: int, digest: bytes) -> str | None:
        rows = [bytes(row) for row in events]
        if seen > len(rows):
            return f"{self.session_id}: saw {seen} events of {len(rows)}"
        if sha256(b"".join(rows[:seen])).digest() != digest:
            return f"{self.session_id}: other bytes than in the log"
        # What follows a turn, as the session's name, may be on its way yet.
        late = [msgspec.json.decode(row, type=_Frame).type for row in rows[seen:]]
        if any(name in DELTAS or name in ENDS for name in late):
            return f"{self.session_id}: has not seen {late}"
        return None
