"""``python -m bench.partitions``: what 1, 2 and 4 partitions of the log bring, to one process that appends and to two.

Each process appends one event at a time in each of its sessions, as text that streams: as fast as the log
takes it, and at a pace that leaves it room. Prints ratios to one process on one partition.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import structlog
from msgspec import Struct

from bench.append import SMALL
from bench.measure import in_turns, quantile, ratios
from bench.servers import Servers, Store, new_id, open_servers, open_store
from bench.service.loop import run
from bench.service.machine import processor_of
from bench.workload import AT
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId
from navi.ports.event_log import Append, NewEvent

PARTITIONS = (1, 2, 4)
PROCESSES = (1, 2)
SESSIONS = 200  # of all processes together
PACE = 10.0  # events a second of each session, where it is not as fast as can be
TIMEOUT = 60.0


class Job(Struct, frozen=True, kw_only=True):
    """What a process is told to append; ``pace`` is 0 for as fast as the log takes it."""

    sessions: int
    pace: float
    seconds: float


class Done(Struct, frozen=True, kw_only=True):
    """What it came to: events a second, the milliseconds of an append, its share of a core."""

    rate: float
    delays: tuple[float, ...]
    cores: float


class Measured(Struct, frozen=True, kw_only=True):
    """The same of all processes; ``half`` and ``most`` are the delays of 50 and 99 of 100.

    Attributes:
        postgres: cores that it took meanwhile.
    """

    rate: float
    half: float
    most: float
    cores: float
    postgres: float


async def write(dsn: str, partitions: int) -> None:
    """Do the jobs that come as lines of JSON, until no more do."""
    async with open_store(dsn, partitions=partitions) as store:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            done = await _append(store, msgspec.json.decode(line, type=Job))
            print(msgspec.json.encode(done).decode(), flush=True)


async def _append(store: Store, job: Job) -> Done:
    delays: list[float] = []
    started, busy = time.perf_counter(), time.process_time()

    async def one(number: int) -> None:
        session_id, seq = SessionId(new_id()), 0
        while (now := time.perf_counter() - started) < job.seconds:
            if job.pace:
                due = (seq + number / job.sessions) / job.pace
                await asyncio.sleep(max(0.0, due - now))
            news = NewEvent(
                id=EventId(new_id()), at=AT, turn_id=None, subagent_id=None, event=SMALL
            )
            before = time.perf_counter()
            await store.log.append(
                Append(session_id=session_id, owner=LOCAL_OWNER, expected=seq, events=(news,))
            )
            delays.append((time.perf_counter() - before) * 1000)
            seq += 1

    await asyncio.gather(*(one(number) for number in range(job.sessions)))
    took = time.perf_counter() - started
    return Done(
        rate=len(delays) / took,
        delays=tuple(delays),
        cores=(time.process_time() - busy) / took,
    )


class Writers:
    """Processes that append to one database."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def measure(self, count: int, *, pace: float, seconds: float) -> Measured:
        """What so many of them do at once, with as many sessions together as ever."""
        chosen = self._processes[:count]
        job = Job(sessions=SESSIONS // count, pace=pace, seconds=seconds)
        started, before = time.perf_counter(), processor_of(os.getpid(), "postgres")
        for process in chosen:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            await process.stdin.drain()
        done = [msgspec.json.decode(await _line(process), type=Done) for process in chosen]
        delays = sorted(delay for one in done for delay in one.delays)
        return Measured(
            rate=sum(one.rate for one in done),
            half=quantile(delays, 0.5),
            most=quantile(delays, 0.99),
            cores=sum(one.cores for one in done),
            postgres=(processor_of(os.getpid(), "postgres") - before)
            / (time.perf_counter() - started),
        )


@asynccontextmanager
async def _writers(servers: Servers, partitions: int, count: int) -> AsyncGenerator[Writers, None]:
    async with servers.database() as dsn, AsyncExitStack() as stack:
        processes: list[asyncio.subprocess.Process] = []
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.partitions", "--write", dsn),
                *("--partitions", str(partitions)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=2**26,  # a line holds the delay of each append
            )
            stack.push_async_callback(_end, process)
            assert (await _line(process)) == b"ready\n"  # one after another: the first makes them
            processes.append(process)
        yield Writers(processes)


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT):
        return await process.stdout.readline()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


async def measure(
    servers: Servers,
    *,
    rounds: int,
    seconds: float,
    partitions: Sequence[int] = PARTITIONS,
    processes: Sequence[int] = PROCESSES,
) -> dict[str, tuple[Measured, ...]]:
    """Each number of processes on each number of partitions, at either pace; all of them once a round."""
    async with AsyncExitStack() as stack:
        writers = {
            number: await stack.enter_async_context(_writers(servers, number, max(processes)))
            for number in partitions
        }
        return await in_turns(
            rounds,
            {
                f"{count} {number} {pace:g}": lambda count=count, number=number, pace=pace: writers[
                    number
                ].measure(count, pace=pace, seconds=seconds)
                for pace in (0.0, PACE)
                for count in processes
                for number in partitions
            },
        )


async def _measured(*, rounds: int, seconds: float) -> dict[str, tuple[Measured, ...]]:
    async with open_servers() as servers:
        return await measure(servers, rounds=rounds, seconds=seconds)


def _table(found: dict[str, tuple[Measured, ...]]) -> str:
    lines = [
        "| processes, partitions | events/s | ratio | ms an append: 50, 99 of 100 | ratio | cores: processes, Postgres |",
        "|---|---|---|---|---|---|",
    ]
    for pace in (0.0, PACE):
        offered = "as fast as can be" if not pace else f"{SESSIONS * pace:,.0f} a second offered"
        lines.append(f"| {SESSIONS} sessions, {offered} | | | | | |")
        alone = found[f"1 1 {pace:g}"]
        for count in PROCESSES:
            for partitions in PARTITIONS:
                here = found[f"{count} {partitions} {pace:g}"]
                lines.append(
                    f"| {count}, {partitions} | {_middle(here, 'rate'):,.0f}"
                    f" | {_ratio(here, alone, 'rate'):.2f}"
                    f" | {_middle(here, 'half'):.1f}, {_middle(here, 'most'):.1f}"
                    f" | {_ratio(here, alone, 'half'):.2f}, {_ratio(here, alone, 'most'):.2f}"
                    f" | {_middle(here, 'cores'):.2f}, {_middle(here, 'postgres'):.2f} |"
                )
    return "\n".join(lines)


def _values(found: Sequence[Measured], name: str) -> tuple[float, ...]:
    return tuple(getattr(one, name) for one in found)


def _middle(found: Sequence[Measured], name: str) -> float:
    return statistics.median(_values(found, name))


def _ratio(here: Sequence[Measured], alone: Sequence[Measured], name: str) -> float:
    return statistics.median(ratios(_values(here, name), _values(alone, name)))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.partitions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="DSN", help=argparse.SUPPRESS)
    parser.add_argument("--partitions", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if arguments.write is not None:
        run(write(arguments.write, arguments.partitions))
        return 0
    found = run(_measured(rounds=arguments.rounds, seconds=arguments.seconds))
    print(json.dumps(msgspec.to_builtins(found), indent=2) if arguments.json else _table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
