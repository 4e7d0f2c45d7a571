"""A piece of text from the socket of its model server to the append: the processor time that navi takes for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import cast
from urllib.parse import urlsplit

from bench.measure import Figure, Pace, at_most, in_turns
from bench.servers import Servers, new_id
from bench.service import paced_model
from bench.service.paced_model import PIECE_CHARACTERS, running_model
from bench.workload import outcomes
from navi.adapters.llm.ollama import Ollama
from navi.adapters.system import SystemClock
from navi.application.agent.model_calls.model_call import Attention, CallEvent, ModelCall
from navi.domain.context.prompt import ModelOptions, ModelRequest, PromptMessage
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.events import ModelCalled, TextDelta
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, NodeId, Owner, SessionId
from navi.ports.event_log import Recorded

STREAMS = 50
RATE = 20.0  # pieces a second of each: none waits for the one before, so none is coalesced
WARM_UP = 0.5  # seconds until all of them stream
SPARE = 1.0  # seconds that a stream goes on behind what is measured
TIMEOUT = 60.0
CALL_SECONDS = 60.0
MICROSECONDS = 1e6
SECRETS = {"API_KEY": "kd83hd92hd92hd93hd9", "DATABASE_PASSWORD": "oiwj3984hf3498hf349hf39"}

Stream = Callable[["Counted"], Awaitable[None]]


class Counted:
    """How many pieces have come."""

    pieces = 0.0


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 12: microseconds a piece, of navi and of sockets that only count what comes."""
    del servers
    async with running_model() as model:
        ollama = Ollama("OLLAMA_HOST", model.url, headers={}, chunk_timeout=CALL_SECONDS)
        async with aclosing(ollama):
            body = ollama.render(_request(WARM_UP + pace.seconds))
            found = await in_turns(
                min(pace.rounds, 3),
                {
                    "sockets": partial(_cost, partial(_socket, model.url, body), pace.seconds),
                    "navi": partial(_cost, partial(_call, ollama, body), pace.seconds),
                },
            )
    return [
        Figure(
            row=12,
            what=f"a piece of text from the model server to the append, {STREAMS * RATE:,.0f} a second: processor",
            values=tuple(cost / 1000 for cost in found["navi"]),
            unit="ms",
            target=at_most(0.1),
            beside={"sockets alone, us": sorted(found["sockets"])[len(found["sockets"]) // 2]},
        )
    ]


def _request(seconds: float) -> ModelRequest:
    pieces = round(RATE * (WARM_UP + seconds + SPARE))
    rhythm = paced_model.Pace(pieces=pieces, a_second=RATE)
    return ModelRequest(
        model=paced_model.MODEL,
        messages=(PromptMessage(role="user", content=rhythm.message),),
        tools=(),
        options=ModelOptions(temperature=None, num_ctx=None, think=False),
    )


async def _cost(stream: Stream, seconds: float) -> float:
    """Microseconds of this process for a piece, while all streams are under way."""
    counted = Counted()
    async with asyncio.TaskGroup() as group:
        for _ in range(STREAMS):
            group.create_task(_awaited(stream(counted)))
        await asyncio.sleep(WARM_UP)
        began, pieces = time.process_time(), counted.pieces
        await asyncio.sleep(seconds)
        async with asyncio.timeout(TIMEOUT):
            while counted.pieces == pieces:  # noqa: ASYNC110 - a short look at a busy machine may see none
                await asyncio.sleep(0.01)
        took, came = time.process_time() - began, counted.pieces - pieces
    return took * MICROSECONDS / came


async def _awaited(streaming: Awaitable[None]) -> None:
    await streaming


# --- navi ---------------------------------------------------------------------------------------


class _Appends:
    """The protocol ``Recorder``: a log that takes no time."""

    node: NodeId | None = None
    owner: Owner = LOCAL_OWNER
    session_id = SessionId(new_id())
    follows = False

    def __init__(self, counted: Counted) -> None:
        self.halt = asyncio.Event()
        self._counted = counted

    async def __call__(self, *events: CallEvent) -> tuple[Recorded, ...]:
        await asyncio.sleep(0)
        for event in events:
            if isinstance(event, TextDelta):
                self._counted.pieces += len(event.text) / PIECE_CHARACTERS
        return ()


async def _call(ollama: Ollama, body: bytes, counted: Counted) -> None:
    called = outcomes()[0][0]
    assert isinstance(called, ModelCalled)
    call = ModelCall(
        _Appends(counted),
        called,
        SystemClock(),
        Secrets(SECRETS),
        Attention(enough=None, repetition=lambda _, __: None),
        (),
    )
    chunks = ollama.stream(body, purpose="turn", call_id=CallId(new_id()))
    await call.stream(chunks, first=CALL_SECONDS, later=CALL_SECONDS, give_way=asyncio.Event())


# --- sockets alone ------------------------------------------------------------------------------


class _Socket(asyncio.Protocol):
    def __init__(self, request: bytes, counted: Counted) -> None:
        self._request = request
        self._counted = counted
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._counted.pieces += data.count(b"@")

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def _socket(url: str, body: bytes, counted: Counted) -> None:
    head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    _, socket = await asyncio.get_running_loop().create_connection(
        lambda: _Socket(head + body, counted), "127.0.0.1", urlsplit(url).port or 80
    )
    await socket.ended
