"""A piece of text, from the moment it came until a client has it, committed to the log in between."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.measure import QUICK, SHORTEST, Figure, Pace, at_most, in_turns
from bench.servers import Servers, new_id
from bench.socket_clients import DIGITS, Job
from bench.socket_server import PATH, Socket, app_of, clients, serving_as_navi
from bench.workload import outcomes
from navi.adapters.embedded.servers import Addresses
from navi.adapters.system import RandomIds, SystemClock
from navi.application.session.record import Record, Records
from navi.bootstrap.edge import services_of
from navi.bootstrap.node import Node, open_node
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import CreateSession, ReceiveMessage, RecordOutcome, TurnStart
from navi.domain.vocabulary.event_codec import encode_data, encode_envelope
from navi.domain.vocabulary.events import ModelCalled, TextDelta
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, NodeId, SessionId, TurnId
from navi.http.app import create_app
from navi.http.live.outbox import Outbox
from navi.http.requests.services import Draining
from navi.http.server.authentication import Identified
from navi.http.server.proxies import Proxies
from navi.http.server.serve import serving
from navi.http.server.websocket_protocol import join_frames
from navi.settings import read_settings

TEXT_CHARACTERS = 60
LEVELS = ((1, 20), (50, 20), (200, 20), (1000, 30))  # sessions, pieces a second of each
QUICK_LEVELS = ((50, 20), (200, 20))
SHORTEST_LEVELS = ((5, 20),)
MOST_ROUNDS = 3  # each starts a process of clients
WARM_UP = 0.5  # seconds, and as many pieces as come in them, that do not count
CALL = CallId("0199b0a0-0000-7000-8000-000000000000")

Send = Callable[[str], Awaitable[object]]


class Delays(Struct, frozen=True, kw_only=True):
    """Of all pieces of a measurement, in milliseconds; ``rate`` is how many came a second."""

    p50: float
    p99: float
    rate: float


class Speaker(Struct, frozen=True, kw_only=True):
    """A session in which text is being written.

    Attributes:
        path: where a client sees what is new from now on.
    """

    path: Callable[[], str]
    send: Send


class Service(Struct, frozen=True, kw_only=True):
    """Something that sends to the clients of its sessions."""

    port: int
    speakers: tuple[Speaker, ...]


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 9: delays at several loads, through all of navi and through its sockets alone."""
    levels = SHORTEST_LEVELS if pace is SHORTEST else QUICK_LEVELS if pace is QUICK else LEVELS
    figures: list[Figure] = []
    most = max(sessions for sessions, _ in levels)
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(servers.database())
        whole = await stack.enter_async_context(_navi(servers, dsn, sessions=most))
        floor = await stack.enter_async_context(_floor(sessions=most))
        for sessions, rate in levels:
            found = await in_turns(
                min(pace.rounds, MOST_ROUNDS),
                {
                    "floor": partial(_delays, floor, sessions, rate, pace.seconds),
                    "navi": partial(_delays, whole, sessions, rate, pace.seconds),
                },
            )
            figures += _figures(found, sessions, rate)
    return figures


def _figures(found: dict[str, tuple[Delays, ...]], sessions: int, rate: int) -> list[Figure]:
    offered = f"{sessions} sessions, {sessions * rate:,} pieces of text a second"
    came = statistics.median(d.rate for d in found["navi"])
    return [
        Figure(
            row=9,
            what=f"text to WebSocket client, {offered}: median",
            values=tuple(d.p50 for d in found["navi"]),
            unit="ms",
            target=at_most(2),
            beside={
                "sockets alone, ms": statistics.median(d.p50 for d in found["floor"]),
                "came a second": came,
            },
        ),
        Figure(
            row=9,
            what="the same: 99 of 100",
            values=tuple(d.p99 for d in found["navi"]),
            unit="ms",
            target=at_most(15),
            beside={"sockets alone, ms": statistics.median(d.p99 for d in found["floor"])},
        ),
    ]


async def _delays(service: Service, sessions: int, rate: int, seconds: float) -> Delays:
    chosen = service.speakers[:sessions]
    job = Job(
        port=service.port,
        paths=tuple(speaker.path() for speaker in chosen),
        skip=WARM_UP / (WARM_UP + seconds),
    )
    async with clients(job) as reading:
        started = time.monotonic()
        until = started + WARM_UP + seconds
        await asyncio.gather(
            *(
                _speak(speaker.send, started + number / sessions / rate, 1 / rate, until)
                for number, speaker in enumerate(chosen)
            )
        )
        took = time.monotonic() - started
        await asyncio.sleep(0.05)  # for what is on its way to the clients
        seen = await reading.seen()
    return Delays(p50=seen.p50, p99=seen.p99, rate=seen.texts / took)


async def _speak(send: Send, first: float, interval: float, until: float) -> None:
    """Send a piece at each moment of a rhythm; one that is late makes the next ones later."""
    due = first
    while due < until:
        now = time.monotonic()
        if due > now:
            await asyncio.sleep(due - now)
        text = f"@{time.monotonic_ns():0{DIGITS}d}".ljust(TEXT_CHARACTERS, "t")
        await send(text)
        due = max(due + interval, time.monotonic() - interval)


# --- all of navi --------------------------------------------------------------------------------


@asynccontextmanager
async def _navi(servers: Servers, dsn: str, *, sessions: int) -> AsyncGenerator[Service, None]:
    """A node as ``navi serve`` runs it: HTTP, projectors and relay; the text is put in by the bench."""
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(_node(servers.directory, dsn, servers.nats_url))
        app = create_app(
            services_of(node, Draining()),
            host="127.0.0.1",
            identify=Identified(node.accounts.find_principal, Proxies()),
            proxies=Proxies(),
        )
        address = await stack.enter_async_context(serving(app, host="127.0.0.1", port=0))
        # Not the node's own id: it would run the turns.
        speaker = NodeId(new_id())
        records = Records(
            node.store.log,
            node.store.read_models,
            SystemClock(),
            RandomIds(),
            speaker,
            Secrets(),
            capacity=2 * sessions,
        )
        speakers = [
            await _open_call(await records.open(SessionId(new_id())), speaker)
            for _ in range(sessions)
        ]
        yield Service(port=address.port, speakers=tuple(speakers))


@asynccontextmanager
async def _node(directory: Path, dsn: str, nats_url: str) -> AsyncGenerator[Node, None]:
    environment = {
        "NAVI_DATA_DIR": str(directory / "node"),
        "DATABASE_URL": dsn,
        "NATS_URL": nats_url,
        "NAVI_LLM": "demo",
    }
    settings = read_settings(environment)
    addresses = Addresses(database_url=dsn, nats_url=nats_url)
    async with open_node(settings, addresses, environment) as node:
        followers = [
            asyncio.create_task(node.projector.run()),
            *(asyncio.create_task(relay.run()) for relay in node.relays),
        ]
        try:
            yield node
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)


async def _open_call(record: Record, speaker: NodeId) -> Speaker:
    """A session in the middle of a model call."""
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    start = TurnStart(turn_id=TurnId(new_id()), node=speaker)
    await record.execute(
        ReceiveMessage(message_id=MessageId(new_id()), content="hello", start=start)
    )
    runner = record.runner()
    assert runner is not None
    called = outcomes()[0]
    await record.execute(RecordOutcome(runner=runner, events=called))
    await record.context()
    await record.todo()
    assert isinstance(called[0], ModelCalled)
    call_id = called[0].call_id

    async def send(text: str) -> None:
        delta = TextDelta(call_id=call_id, text=text)
        await record.execute(RecordOutcome(runner=runner, events=(delta,)), retry=True)

    return Speaker(path=lambda: f"{PATH.format(record.id)}?after={record.seq}", send=send)


# --- the floor ----------------------------------------------------------------------------------


@asynccontextmanager
async def _floor(*, sessions: int) -> AsyncGenerator[Service, None]:
    """Sockets alone: the envelope is encoded and framed as by navi, nothing is decided or stored."""
    outboxes = {new_id(): Outbox() for _ in range(sessions)}

    async def write(socket: Socket, session_id: str) -> None:
        outbox = Outbox()
        outboxes[session_id] = outbox
        while frames := await outbox.take():
            message: Any = {"type": "websocket.send", "frames": join_frames(frames)}
            await socket.send(message)

    async with serving_as_navi(app_of(write)) as port:
        yield Service(port=port, speakers=tuple(_framed(sid, outboxes) for sid in outboxes))


def _framed(session_id: str, outboxes: dict[str, Outbox]) -> Speaker:
    event_id, turn_id, seq = new_id(), new_id(), 0

    async def send(text: str) -> None:
        nonlocal seq
        seq += 1
        frame = encode_envelope(
            session_id=session_id,
            seq=seq,
            id=event_id,
            type=TextDelta.TYPE,
            v=1,
            at=datetime.now(UTC),
            turn_id=turn_id,
            subagent_id=None,
            data=encode_data(TextDelta(call_id=CALL, text=text)),
        )
        outboxes[session_id].put(frame)

    return Speaker(path=lambda: PATH.format(session_id), send=send)
