"""What pushing frames costs: joined bursts against Litestar's own send, through the same server.

    python -m bench.websocket

Clients are another process that counts bytes. Prints frames a second and the ratios: at least 0.9
for single frames, at least 5 for bursts.
"""

import asyncio
import json
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import uvloop
from litestar import Litestar, WebSocket, websocket

from navi.http.serve import serving
from navi.http.websocket_protocol import join_frames

PAYLOAD = b'{"type":"text_delta","data":{"text":"' + b"x" * 118 + b'"}}'  # 158 bytes
CLIENTS = 100
FRAMES = 4_000  # a client and round
BURSTS = (1, 20)
ROUNDS = 5

_UPGRADE = (
    "GET /{way}/{burst} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Start:
    """Lets all clients of a round go at once."""

    def __init__(self) -> None:
        self.waiting = 0
        self.go = asyncio.Event()

    async def wait(self) -> None:
        self.waiting += 1
        if self.waiting == CLIENTS:
            self.go.set()
        await self.go.wait()


start = Start()


@websocket("/plain/{burst:int}")
async def plain(socket: WebSocket[Any, Any, Any], burst: int) -> None:
    """Every frame by itself, as the framework does it."""
    await socket.accept()
    await start.wait()
    for _ in range(FRAMES // burst):
        for _ in range(burst):
            await socket.send_data(PAYLOAD, mode="text")
        await asyncio.sleep(0)
    await socket.close()


@websocket("/joined/{burst:int}")
async def joined(socket: WebSocket[Any, Any, Any], burst: int) -> None:
    """What is there at a wake in one piece."""
    await socket.accept()
    await start.wait()
    pending = [PAYLOAD] * burst
    for _ in range(FRAMES // burst):
        message: Any = {"type": "websocket.send", "frames": join_frames(pending)}
        await socket.send(message)
        await asyncio.sleep(0)
    await socket.close()


class Counter(asyncio.Protocol):
    """Counts bytes behind the upgrade until all have come."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self._left = FRAMES * len(join_frames([PAYLOAD]))
        self._done = done
        self._upgraded = False

    def data_received(self, data: bytes) -> None:
        if not self._upgraded:
            _, found, data = data.partition(b"\r\n\r\n")
            self._upgraded = bool(found)
        self._left -= len(data)
        if self._left <= 0 and not self._done.done():
            self._done.set_result(None)


async def count(port: int, way: str, burst: int) -> float:
    """Seconds from the last handshake to the last byte of all clients."""
    loop = asyncio.get_running_loop()
    done = [loop.create_future() for _ in range(CLIENTS)]
    transports: list[asyncio.Transport] = []
    for future in done:
        transport, _ = await loop.create_connection(
            lambda future=future: Counter(future), "127.0.0.1", port
        )
        transports.append(transport)
        transport.write(_UPGRADE.format(way=way, burst=burst).encode())
    began = time.perf_counter()
    await asyncio.gather(*done)
    seconds = time.perf_counter() - began
    for transport in transports:
        transport.abort()
    return seconds


def client(pipe: Connection) -> None:
    """The process of the clients: takes (port, way, burst), gives seconds."""
    while (task := pipe.recv()) is not None:
        pipe.send(uvloop.run(count(*task)))


async def measure(port: int, pipe: Connection, way: str, burst: int) -> float:
    global start  # noqa: PLW0603 - a bench of one file
    start = Start()
    await asyncio.to_thread(pipe.send, (port, way, burst))
    seconds = await asyncio.to_thread(pipe.recv)
    return CLIENTS * FRAMES / seconds


async def run() -> dict[str, float]:
    """Frames a second by way and burst, medians, and the ratios of joined to plain."""
    mine, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=client, args=(theirs,))
    process.start()
    app: Any = Litestar([plain, joined], openapi_config=None, logging_config=None)
    found: dict[str, list[float]] = {}
    ratios: dict[int, list[float]] = {burst: [] for burst in BURSTS}
    async with serving(app, host="127.0.0.1", port=0) as address:
        for _ in range(ROUNDS):
            for burst in BURSTS:
                both = {
                    way: await measure(address.port, mine, way, burst)
                    for way in ("plain", "joined")
                }
                for way, speed in both.items():
                    found.setdefault(f"{way}_b{burst}", []).append(speed)
                ratios[burst].append(both["joined"] / both["plain"])
    mine.send(None)
    await asyncio.to_thread(process.join)
    return {
        **{name: round(statistics.median(speeds)) for name, speeds in found.items()},
        **{f"ratio_b{burst}": round(statistics.median(r), 2) for burst, r in ratios.items()},
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run()), indent=2))
