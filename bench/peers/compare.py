"""navi, bare inserts and what others keep a turn with, in turns on the same Postgres: ``make bench ARGS="--peers"``."""

import asyncio
import json
import statistics
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from bench.measure import Pace, in_turns
from bench.peers.driver import AT_ONCE
from bench.peers.turn import ITEMS
from bench.raw import open_raw
from bench.servers import Servers, open_store
from bench.turn import RawStream, in_a_row, side_by_side, turns_of
from bench.workload import EVENTS, STEPS, fill
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.projections.registry import PROJECTIONS

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "peers.lock"
ENVIRONMENT = ROOT / "build" / "peers"
START_SECONDS = 600.0  # to fill a session


class Peer(Struct, frozen=True, kw_only=True):
    """Somebody who keeps turns.

    Attributes:
        items: kept of a turn.
        commits: of a turn.
        pieces: whether the pieces of the text are kept, which is what a stream is resumed from.
    """

    name: str
    items: int
    commits: int
    pieces: bool = False


BARE = Peer(name="bare inserts", items=EVENTS, commits=STEPS, pieces=True)
NAVI = Peer(name="navi, its projector beside it", items=EVENTS, commits=STEPS, pieces=True)
ROWS: Mapping[str, Peer] = {
    "rows": Peer(name="asyncpg, rows of what the next ones keep", items=ITEMS, commits=7)
}
OTHERS: Mapping[str, Peer] = {
    **ROWS,
    "openai_agents": Peer(name="OpenAI Agents, SQLAlchemySession", items=ITEMS, commits=7),
    "google_adk": Peer(name="Google ADK, DatabaseSessionService", items=ITEMS, commits=ITEMS),
    "langgraph_saver": Peer(name="LangGraph, AsyncPostgresSaver, sync", items=ITEMS, commits=ITEMS),
    "event_store": Peer(
        name="eventsourcing, PostgresApplicationRecorder", items=ITEMS, commits=ITEMS
    ),
}


class Compared(Struct, frozen=True, kw_only=True):
    """A line: medians of the rounds.

    Attributes:
        milliseconds: of a turn, in a session that has some hundreds.
        a_second: turns of sixteen new sessions at once.
    """

    peer: Peer
    milliseconds: float
    a_second: float


Measure = Callable[[], Awaitable[float]]


async def compare(
    servers: Servers, pace: Pace, *, python: Path, others: Mapping[str, Peer] = OTHERS
) -> list[Compared]:
    """Everybody's turn, everybody once a round.

    Args:
        python: of an environment that has the others.
    """
    async with AsyncExitStack() as stack:
        one: dict[str, Measure] = {}
        many: dict[str, Measure] = {}
        for keeping in (_bare(servers, pace), _navi(servers, pace)):
            peer, one_session, sixteen = await stack.enter_async_context(keeping)
            one[peer.name], many[peer.name] = one_session, sixteen
        for module, peer in others.items():
            dsn = await servers.postgres.create_database()
            stack.push_async_callback(servers.postgres.drop_database, dsn)
            driver = await stack.enter_async_context(_driven(python, module, dsn, pace.long))
            one[peer.name] = _asking(driver, turns=pace.turns)
            many[peer.name] = _asking(driver, seconds=pace.seconds)
        times = await in_turns(pace.rounds, one)
        rates = await in_turns(pace.rounds, many)
    return [
        Compared(
            peer=peer,
            milliseconds=statistics.median(times[peer.name]),
            a_second=statistics.median(rates[peer.name]),
        )
        for peer in (BARE, NAVI, *others.values())
    ]


Keeping = tuple[Peer, Measure, Measure]


@asynccontextmanager
async def _bare(servers: Servers, pace: Pace) -> AsyncGenerator[Keeping, None]:
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(servers.database())
        streams: list[RawStream] = []
        for number in range(AT_ONCE):
            raw = await stack.enter_async_context(open_raw(dsn, fresh=number == 0))
            streams.append(RawStream(raw))
        for _ in range(pace.long):
            await streams[0].turn()
        yield (
            BARE,
            lambda: in_a_row(streams[0].turn, pace.turns),
            lambda: side_by_side([stream.turn for stream in streams], pace.seconds),
        )


@asynccontextmanager
async def _navi(servers: Servers, pace: Pace) -> AsyncGenerator[Keeping, None]:
    async with servers.database() as dsn, open_store(dsn) as store:
        first = await store.create()
        await fill(store, first.id, turns=pace.long)
        await first.refresh()
        many = [await store.create() for _ in range(AT_ONCE)]
        projector = Projector(store.log, store.read_models, PROJECTIONS, SystemClock())
        await projector.caught_up()
        projecting = asyncio.create_task(projector.run())
        try:
            yield (
                NAVI,
                lambda: in_a_row(turns_of(first, store), pace.turns),
                lambda: side_by_side([turns_of(one, store) for one in many], pace.seconds),
            )
        finally:
            projecting.cancel()
            with suppress(asyncio.CancelledError):
                await projecting


@asynccontextmanager
async def _driven(python: Path, module: str, dsn: str, turns: int) -> AsyncGenerator[Process, None]:
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "bench.peers.driver", module, dsn, str(turns)),
        stdin=PIPE,
        stdout=PIPE,
        cwd=ROOT,
    )
    try:
        await _answer(process)
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _asking(driver: Process, **asked: float) -> Measure:
    async def measure() -> float:
        assert driver.stdin is not None
        driver.stdin.write(json.dumps(asked).encode() + b"\n")
        [found] = (await _answer(driver)).values()
        return found

    return measure


async def _answer(driver: Process) -> dict[str, float]:
    assert driver.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        line = await driver.stdout.readline()
    if not line:
        raise RuntimeError("a peer ended; what it says stands above")
    return json.loads(line)


def environment() -> Path:
    """The Python of the peers' own environment, which is made where it is missing."""
    python = ENVIRONMENT / "bin" / "python"
    made = ENVIRONMENT / "made"
    if not made.exists() or made.read_bytes() != LOCK.read_bytes():
        print(f"Installing what {LOCK.relative_to(ROOT)} names (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)  # noqa: S603 - our own
        options = ("--disable-pip-version-check", "-qq", "--require-hashes", "--no-deps")
        install = [python, "-m", "pip", "install", *options, "--no-compile", "-r", LOCK]
        subprocess.run(install, check=True)  # noqa: S603 - our own
        made.write_bytes(LOCK.read_bytes())
    return python


def table(lines: list[Compared]) -> str:
    """The lines as Markdown, each beside bare inserts."""
    bare = lines[0]
    rows = [
        "| | kept of a turn | ms a turn, one session | of bare | turns/s, 16 new sessions | of bare |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        pieces = ", with each piece of text" if line.peer.pieces else ""
        kept = f"{line.peer.items} items, {line.peer.commits} commits{pieces}"
        slower, share = line.milliseconds / bare.milliseconds, line.a_second / bare.a_second
        rows.append(
            f"| {line.peer.name} | {kept} | {line.milliseconds:,.1f} | {slower:,.2f} x |"
            f" {line.a_second:,.0f} | {share:.2f} x |"
        )
    return "\n".join(rows)
