"""``python -m bench.service.many_sockets``: many sockets in a process of their own, which read and answer pings.

Reads a job as a line of JSON, connects, says ``ready`` when each socket was told that it is, reads how many of
them are to see the end of a turn, waits for that, and says what it saw as a line of JSON.
"""

import asyncio
import resource
import sys
import time
from collections import Counter
from typing import cast

import msgspec
from msgspec import Struct

from bench.measure import quantile
from bench.service.loop import run
from bench.service.mark import MARK
from bench.socket_clients import REQUEST

AT_ONCE = 50  # handshakes
TIMEOUT = 120.0  # seconds
PAUSE = 0.1  # seconds, before a socket that was sent away comes back
ENDS = b'"type":"turn_completed"'
DELTA = b'"type":"text_delta"'
_PING, _PONG, _CLOSE = 0x89, 0x8A, 0x88  # FIN and the opcode (RFC 6455, section 5.2)


class Job(Struct, frozen=True, kw_only=True):
    """A socket for each of the sessions, which may be named several times."""

    port: int
    session_ids: tuple[str, ...]


class Seen(Struct, frozen=True, kw_only=True):
    """What came.

    Attributes:
        ended: sockets that saw a turn completed.
        again: how often one was closed, and opened again.
        delays: milliseconds from the model's writing of a piece to the socket, 50 and 99 of 100.
    """

    ended: int
    again: int
    pings: int
    delays: tuple[float, float]


class _Counts:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.delays: list[float] = []
        self.news = asyncio.Event()

    def count(self, what: str) -> None:
        self.counts[what] += 1
        self.news.set()

    async def until(self, what: str, wanted: int) -> None:
        async with asyncio.timeout(TIMEOUT):
            while self.counts[what] < wanted:
                self.news.clear()
                await self.news.wait()


class _Socket(asyncio.Protocol):
    """Just enough of RFC 6455: unmasked frames that are not fragmented come in, pongs go out."""

    def __init__(self, counts: _Counts, session_id: str, port: int) -> None:
        self._counts = counts
        self._request = REQUEST.format(path=f"/ws/sessions/{session_id}", port=port).encode()
        self._waiting = b""
        self._transport: asyncio.Transport | None = None
        self._closing = "without a word"
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[str] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in its methods
        self._transport.write(self._request)
        self._request = b""

    def data_received(self, data: bytes) -> None:
        data = self._waiting + data
        if data.startswith(b"HTTP/"):
            head, found, rest = data.partition(b"\r\n\r\n")
            if not found:
                self._waiting = data
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            data = rest
        while len(data) >= 2:
            start, length = 2, data[1]
            if length >= 126:
                start = 4 if length == 126 else 10
                length = int.from_bytes(data[2:start]) if len(data) >= start else sys.maxsize
            if len(data) < start + length:
                break
            self._take(data[0], data[start : start + length])
            data = data[start + length :]
        self._waiting = data

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            assert self._transport is not None
            # A mask of zeros leaves the payload as it is.
            self._transport.write(bytes((_PONG, 0x80 | len(payload), 0, 0, 0, 0)) + payload)
            self._counts.count("pings")
        elif opcode == _CLOSE:
            self._closing = f"{int.from_bytes(payload[:2])}: {payload[2:].decode()}"
        elif not self.ready.done():
            self.ready.set_result(None)
        else:
            if DELTA in payload:
                now = time.monotonic_ns()
                self._counts.delays += [(now - int(at)) / 1e6 for at in MARK.findall(payload)]
            if ENDS in payload:
                self._counts.count("ended")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(self._closing)


async def follow(job: Job) -> None:
    """Connect, follow, and say what was seen."""
    counts, at_once = _Counts(), asyncio.Semaphore(AT_ONCE)

    async def connect(session_id: str) -> _Socket:
        async with at_once, asyncio.timeout(TIMEOUT):
            _, socket = await asyncio.get_running_loop().create_connection(
                lambda: _Socket(counts, session_id, job.port), "127.0.0.1", job.port
            )
            await asyncio.wait((socket.ready, socket.closed), return_when=asyncio.FIRST_COMPLETED)
            return socket

    async def hold(session_id: str) -> None:
        is_new = True
        while True:
            socket = await connect(session_id)
            if is_new and socket.ready.done():
                is_new = False
                counts.count("open")
            print(f"sent away, {await socket.closed}", file=sys.stderr, flush=True)
            counts.count("again")  # as clients are told to, on a machine that is busy
            await asyncio.sleep(PAUSE)

    holding = [asyncio.ensure_future(hold(session_id)) for session_id in job.session_ids]
    await counts.until("open", len(holding))
    print("ready", flush=True)
    wanted = int(await asyncio.to_thread(sys.stdin.readline))
    await counts.until("ended", wanted)
    delays = sorted(counts.delays) or [0.0]
    seen = Seen(
        ended=counts.counts["ended"],
        again=counts.counts["again"],
        pings=counts.counts["pings"],
        delays=(quantile(delays, 0.5), quantile(delays, 0.99)),
    )
    print(msgspec.json.encode(seen).decode(), flush=True)
    for task in holding:
        task.cancel()
    await asyncio.wait(holding)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run(follow(msgspec.json.decode(sys.stdin.readline(), type=Job)))
