"""Clients in a process of their own: ``python -m bench.socket_clients JOB``, one JSON line each way.

Connects, says ``ready``, and says what it saw: when ``expected_bytes`` have come, or, without them, when
its standard input ends.
"""

import asyncio
import sys
import time
from typing import cast

import msgspec
from msgspec import Struct

from bench.measure import quantile

MARK = b'"text":"@'  # what follows is the moment at which the text was made: 20 digits, nanoseconds
DIGITS = 20
TIMEOUT = 60.0  # seconds
REQUEST = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Job(Struct, frozen=True, kw_only=True):
    """Where to connect, a connection a path, and what to look at.

    Attributes:
        expected_bytes: count bytes up to so many; 0 to take the delay of each marked text.
        skip: share of the texts, the first ones, that do not count, 0 to 1.
    """

    port: int
    paths: tuple[str, ...]
    expected_bytes: int = 0
    skip: float = 0.0


class Seen(Struct, frozen=True, kw_only=True):
    """What came.

    Attributes:
        seconds: from the first byte to the last.
        texts: how many marked ones came.
        p50: the median of their delays, in milliseconds.
        p99: the delay that one in a hundred exceeds.
    """

    seconds: float
    texts: int
    p50: float
    p99: float


class Clients:
    """What all connections have seen together."""

    def __init__(self, expected_bytes: int) -> None:
        self.expected_bytes = expected_bytes
        self.first = self.last = 0.0
        self.bytes = 0
        self.delays: list[float] = []
        self.done = asyncio.Event()

    def count(self, size: int) -> None:
        """Some bytes of frames came."""
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.bytes += size
        if self.expected_bytes and self.bytes >= self.expected_bytes:
            self.done.set()


class Client(asyncio.Protocol):
    """One connection, with just enough of RFC 6455: unmasked frames that are not fragmented."""

    def __init__(self, clients: Clients, path: str, port: int) -> None:
        self._clients = clients
        self._request = REQUEST.format(path=path, port=port).encode()
        self._rest = b""
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(
            self._request
        )  # uvloop's is one in its methods only

    def data_received(self, data: bytes) -> None:
        if not self.open.done():
            head, found, data = (self._rest + data).partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._rest = b""
            self.open.set_result(None)
            if not data:
                return
        self._clients.count(len(data))
        if not self._clients.expected_bytes:
            self._take_delays(data)

    def _take_delays(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._rest + data
        place = 0
        while True:
            found = data.find(MARK, place)
            if found < 0 or found + len(MARK) + DIGITS > len(data):
                break
            place = found + len(MARK) + DIGITS
            self._clients.delays.append((now - int(data[place - DIGITS : place])) / 1e6)
        # A mark may be cut in two by the end of what was read.
        self._rest = data[max(place, len(data) - len(MARK) - DIGITS) :]


async def watch(job: Job) -> Seen:
    """Connect and look."""
    loop = asyncio.get_running_loop()
    clients = Clients(job.expected_bytes)
    opened: list[asyncio.Transport] = []
    for path in job.paths:
        transport, client = await loop.create_connection(
            lambda path=path: Client(clients, path, job.port), "127.0.0.1", job.port
        )
        opened.append(transport)
        async with asyncio.timeout(TIMEOUT):
            await client.open
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    if job.expected_bytes:
        async with asyncio.timeout(TIMEOUT):
            await clients.done.wait()
    else:
        await ended
    for transport in opened:
        transport.abort()
    counted = sorted(clients.delays[int(len(clients.delays) * job.skip) :]) or [0.0]
    return Seen(
        seconds=clients.last - clients.first,
        texts=len(clients.delays),
        p50=quantile(counted, 0.5),
        p99=quantile(counted, 0.99),
    )


def main() -> None:
    """Do the job of the command line."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        seen = runner.run(watch(job))
    sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
