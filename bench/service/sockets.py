"""``python -m bench.service.sockets``: what open sockets take of a node's memory, idle and while some stream.

On a service of its own each: sockets on a few hundred sessions that many watch, and on a session each.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import msgspec
import psutil
from msgspec import Struct

from bench.servers import new_id, open_store
from bench.service import many_sockets
from bench.service.load import service
from bench.service.loop import run
from bench.service.machine import MIB, machine, memory_of
from bench.service.paced_model import Pace
from navi.domain.vocabulary.events import SessionCreated
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId
from navi.http.server.connection_limit import SPARE_FILES
from navi.ports.event_log import Append, NewEvent
from tests.support.navi_process import NaviProcess

WATCHED = 50  # sockets a session, where many watch the same
STREAMING = 100  # sockets that see text
CLIENTS = 2  # processes that hold the sockets
WRITERS = 64  # sessions that are made at once
SAMPLE_SECONDS = 0.5


class Memory(Struct, frozen=True, kw_only=True):
    """Of the node, in MiB: what is resident, and what of it is its own (shared pages in parts)."""

    rss: float
    pss: float

    def __str__(self) -> str:
        return f"{self.rss:,.0f} ({self.pss:,.0f})"


class Held(Struct, frozen=True, kw_only=True):
    """What a number of sockets took.

    Attributes:
        warm: the node's memory with one socket open, after a turn.
        idle: with all of them open, after each was pinged.
        streaming: resident at the most, while 100 sockets saw text.
        cores: of processor the node took for idle sockets, 1 being one core.
        delays: milliseconds from a piece of text to the sockets, 50 and 99 of 100.
        again: how often a socket was closed, and came again as it was told to.
        broken: what does not hold; nothing where all is well.
    """

    sockets: int
    sessions: int
    opened_seconds: float
    warm: Memory
    idle: Memory
    streaming: float
    cores: float
    delays: tuple[float, float]
    again: int
    broken: tuple[str, ...]

    @property
    def kib_a_socket(self) -> float:
        return (self.idle.pss - self.warm.pss) * 1024 / self.sockets


async def measure(*, sockets: int, sessions: int, rest: float, pace: Pace) -> Held:
    """What so many sockets take, on a service of their own."""
    async with service() as (navi, _):
        return await hold(navi, sockets=sockets, sessions=sessions, rest=rest, message=pace.message)


async def hold(
    navi: NaviProcess, *, sockets: int, sessions: int, rest: float, message: str
) -> Held:
    """What so many sockets take at a node, spread evenly over so many new sessions of it.

    Args:
        rest: seconds in which they are idle.
        message: what a user says, to which an answer streams.
    """
    ids = await _sessions(navi, sessions)
    watched = [ids[number % sessions] for number in range(sockets)]
    async with _open(navi, watched[:1]):
        await navi.say(ids[-1], message)
        warm = _memory(navi)
    process = psutil.Process(navi.pid)
    started = time.monotonic()
    async with _open(navi, watched) as clients:
        opened = time.monotonic() - started
        await asyncio.sleep(rest / 2)
        before = sum(process.cpu_times()[:2])
        await asyncio.sleep(rest / 2)
        cores = (sum(process.cpu_times()[:2]) - before) / (rest / 2)
        idle = _memory(navi)
        spoken = ids[: -(-STREAMING * sessions // sockets)]
        resident = [idle.rss]
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(_sample(navi, resident))
            await asyncio.gather(*(navi.say(one, message) for one in spoken))
            sampling.cancel()
        wanted = [sum(one in spoken for one in part) for part in _dealt(watched)]
        seen = await _seen(clients, wanted)
    ended = sum(one.ended for one in seen)
    return Held(
        sockets=sockets,
        sessions=sessions,
        opened_seconds=opened,
        warm=warm,
        idle=idle,
        streaming=max(resident),
        cores=cores,
        delays=(max(one.delays[0] for one in seen), max(one.delays[1] for one in seen)),
        again=sum(one.again for one in seen),
        broken=(
            (f"{ended} sockets saw a turn end of {sum(wanted)}",) if ended != sum(wanted) else ()
        ),
    )


async def _sessions(navi: NaviProcess, count: int) -> list[SessionId]:
    """So many new sessions, as another node would make them."""
    ids = [SessionId(new_id()) for _ in range(count)]
    waiting = iter(ids)
    dsn = (await navi.command("status", "--json")).json["database_url"]
    async with open_store(dsn) as store:

        async def write() -> None:
            for session_id in waiting:
                created = NewEvent(
                    id=EventId(new_id()),
                    at=datetime.now(UTC),
                    turn_id=None,
                    subagent_id=None,
                    event=SessionCreated(profile_id="assistant", owner=LOCAL_OWNER),
                )
                await store.log.append(
                    Append(session_id=session_id, owner=LOCAL_OWNER, expected=0, events=(created,))
                )

        await asyncio.gather(*(write() for _ in range(WRITERS)))
    return ids


@asynccontextmanager
async def _open(
    navi: NaviProcess, session_ids: Sequence[SessionId]
) -> AsyncGenerator[list[asyncio.subprocess.Process], None]:
    """Processes that hold a socket for each, gone with the block."""
    port = int(navi.url.rpartition(":")[2])
    async with AsyncExitStack() as stack:
        clients: list[asyncio.subprocess.Process] = []
        for part in _dealt(session_ids):
            job = many_sockets.Job(port=port, session_ids=part)
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", many_sockets.__name__),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            clients.append(client)
            stack.push_async_callback(_end, client)
            await _tell(client, msgspec.json.encode(job))
        for client in clients:
            assert (await _line(client)) == b"ready\n"
        yield clients


def _dealt(session_ids: Sequence[SessionId]) -> list[tuple[SessionId, ...]]:
    """What each of the client processes holds."""
    count = min(CLIENTS, len(session_ids))
    return [tuple(session_ids[number::count]) for number in range(count)]


async def _seen(
    clients: Sequence[asyncio.subprocess.Process], wanted: Sequence[int]
) -> list[many_sockets.Seen]:
    """What they saw, when so many of the sockets of each have seen a turn end."""
    for client, count in zip(clients, wanted, strict=True):
        await _tell(client, str(count).encode())
    return [msgspec.json.decode(await _line(client), type=many_sockets.Seen) for client in clients]


async def _tell(client: asyncio.subprocess.Process, line: bytes) -> None:
    assert client.stdin is not None
    client.stdin.write(line + b"\n")
    await client.stdin.drain()


async def _line(client: asyncio.subprocess.Process) -> bytes:
    assert client.stdout is not None
    async with asyncio.timeout(2 * many_sockets.TIMEOUT):
        return await client.stdout.readline()


async def _end(client: asyncio.subprocess.Process) -> None:
    if client.returncode is None:
        client.kill()
    await client.wait()


async def _sample(navi: NaviProcess, resident: list[float]) -> None:
    while True:
        resident.append(memory_of(navi.pid))
        await asyncio.sleep(SAMPLE_SECONDS)


def _memory(navi: NaviProcess) -> Memory:
    info = psutil.Process(navi.pid).memory_full_info()
    return Memory(rss=info.rss / MIB, pss=info.pss / MIB)


def main() -> int:
    """Print a table; status 1 where a client missed something, or the files of a process are too few."""
    parser = argparse.ArgumentParser(prog="python -m bench.service.sockets", description=__doc__)
    parser.add_argument("--sockets", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, help="one measurement, on so many sessions")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds in which they are idle")
    parser.add_argument("--seconds", type=float, default=10.0, help="that each answer takes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files != resource.RLIM_INFINITY and files < arguments.sockets + SPARE_FILES:
        print(
            f"a process may open {files} files here (ulimit -Hn), {arguments.sockets} sockets"
            f" want {arguments.sockets + SPARE_FILES}",
            file=sys.stderr,
        )
        return 1
    pace = Pace(pieces=round(arguments.seconds * 20), a_second=20)
    spread = [arguments.sessions or -(-arguments.sockets // WATCHED)]
    if arguments.sessions is None:
        spread.append(arguments.sockets)  # a session each
    held = [
        run(measure(sockets=arguments.sockets, sessions=count, rest=arguments.rest, pace=pace))
        for count in spread
    ]
    if arguments.json:
        print(json.dumps([msgspec.to_builtins(one) for one in held], indent=2))
    else:
        print(_table(held, files))
    broken = [sentence for one in held for sentence in one.broken]
    for sentence in broken:
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def _table(held: Sequence[Held], files: int) -> str:
    heads = ["", *(f"{one.sockets:,} sockets on {one.sessions:,} sessions" for one in held)]
    rows: list[tuple[str, ...]] = [
        ("memory of the node, MiB resident (its own): one socket", *(str(o.warm) for o in held)),
        ("all open, idle", *(str(o.idle) for o in held)),
        (f"{STREAMING} of them streaming, at the most", *(f"{o.streaming:,.0f}" for o in held)),
        ("an idle socket, KiB", *(f"{o.kib_a_socket:.1f}" for o in held)),
        ("cores: idle sockets", *(f"{o.cores:.2f}" for o in held)),
        ("sockets opened, a second", *(f"{o.sockets / o.opened_seconds:,.0f}" for o in held)),
        ("sockets sent away for a moment", *(f"{o.again}" for o in held)),
        (
            "piece written to piece seen, ms: 50, 99 of 100",
            *(f"{o.delays[0]:,.0f}, {o.delays[1]:,.0f}" for o in held),
        ),
    ]
    return "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, {files} files a process (ulimit -Hn)",
            "",
            f"| {' | '.join(heads)} |",
            f"|{'---|' * len(heads)}",
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
