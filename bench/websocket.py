"""Frames to clients: navi's outbox and joined frames against Litestar's own ``send``."""

import asyncio
import statistics
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from litestar import Litestar

from bench.measure import Figure, Pace, at_least, in_turns, ratios
from bench.servers import Servers
from bench.socket_clients import Job
from bench.socket_server import (
    PATH,
    Socket,
    Writing,
    app_of,
    clients,
    serving_as_navi,
    serving_as_uvicorn,
)
from navi.http.live.outbox import Outbox
from navi.http.server.websocket_protocol import join_frames

CLIENTS = 100
PAYLOAD = b"x" * 158  # bytes: the envelope of a short piece of text
FRAME_BYTES = len(join_frames([PAYLOAD]))
BURST = 20
FRAMES_A_SECOND = 60_000  # about: how many frames make up a measurement of a second

Serving = Callable[[Litestar], AbstractAsyncContextManager[int]]


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 10: frames a second to a hundred clients, one or twenty a client and wake."""
    del servers
    figures: list[Figure] = []
    for burst, target in ((1, 0.9), (BURST, 5.0)):
        wakes = int(FRAMES_A_SECOND * pace.seconds / CLIENTS / (1 if burst == 1 else BURST / 4))
        rates = await in_turns(
            pace.rounds,
            {
                "litestar": partial(_rate, serving_as_uvicorn, _one_by_one, burst, wakes),
                "navi": partial(_rate, serving_as_navi, _joined, burst, wakes),
            },
        )
        figures.append(
            Figure(
                row=10,
                what=f"WebSocket push, {burst} frames a client and wake / Litestar on uvicorn as it comes",
                values=ratios(rates["navi"], rates["litestar"]),
                target=at_least(target),
                beside={
                    f"{name}, frames/s": statistics.median(values) for name, values in rates.items()
                },
            )
        )
    return figures


async def _rate(
    serving: Serving, sending: Callable[[int, int, asyncio.Event], Writing], burst: int, wakes: int
) -> float:
    begun = asyncio.Event()
    async with serving(app_of(sending(burst, wakes, begun))) as port:
        frames = CLIENTS * burst * wakes
        job = Job(
            port=port,
            paths=tuple(PATH.format(n) for n in range(CLIENTS)),
            expected_bytes=frames * FRAME_BYTES,
        )
        async with clients(job) as reading:
            begun.set()
            return frames / (await reading.seen()).seconds


def _one_by_one(burst: int, wakes: int, begun: asyncio.Event) -> Writing:
    async def write(socket: Socket, session_id: str) -> None:
        del session_id
        await begun.wait()
        for _ in range(wakes):
            for _ in range(burst):
                await socket.send_data(PAYLOAD, mode="text")
            await asyncio.sleep(0)

    return write


def _joined(burst: int, wakes: int, begun: asyncio.Event) -> Writing:
    async def write(socket: Socket, session_id: str) -> None:
        del session_id
        outbox = Outbox()
        await begun.wait()
        for _ in range(wakes):
            for _ in range(burst):
                outbox.put(PAYLOAD)
            message: Any = {"type": "websocket.send", "frames": join_frames(await outbox.take())}
            await socket.send(message)
            await asyncio.sleep(0)

    return write
