"""``make soak``: sessions chat for minutes while their clients break, and navi's memory has to stay flat.

Clients are cut at random moments and come back with their cursor, read slowly, stop turns, say things twice;
a message often asks for two tool calls. Every session ends after some turns with a look whether each of its
clients saw every event once and in order, byte for byte as the log has it; then another one begins.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom

import httpx
import msgspec
from msgspec import Struct
from nats.errors import TimeoutError as NatsTimeout

from bench.service.inside import VARIABLE
from bench.service.lag import Lag, open_lag
from bench.service.load import service
from bench.service.loop import run
from bench.service.machine import (
    backends_of,
    files_of,
    machine,
    memory_of,
    memory_of_nats,
    threads_of,
    used,
)
from bench.service.paced_model import Pace
from bench.service.viewer import Viewer, asked, asked_again
from tests.support.navi_process import NaviProcess

SAMPLE_SECONDS = 5.0
WARM_UP = 0.2  # of the time, whose samples do not count
MOST_GROWTH = 2.0  # MiB a minute
# navi keeps the last 500 sessions in memory, and more than that many are there from the beginning.
FILL_SESSIONS = 600
FILL_AT_ONCE = 20
TURNS = (3, 10)  # of a session
PIECES = (5, 80)
RATES = (10.0, 20.0, 40.0)
TIMEOUT = 20.0  # seconds; the longest answer takes 8, and 10 more where the client does not read
REST_SECONDS = 20.0


class Sample(Struct, frozen=True, kw_only=True):
    """What navi held at a moment; ``minutes`` since the soak began."""

    minutes: float
    memory: float
    memory_of_nats: float
    files: int
    threads: int
    backends: int
    load_average: float


class Inside(Struct, frozen=True, kw_only=True):
    """What navi said about itself."""

    at: float
    tasks: int
    blocks: int


class Counts:
    """What was done to navi, and what did not hold."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.broken: list[str] = []


def main() -> int:
    """Soak as the command line asks for; status 1 where something grew or was missed."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=...", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=50, help="that chat side by side")
    parser.add_argument("--fill", type=int, default=FILL_SESSIONS, help="sessions made before")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--rest", type=float, default=REST_SECONDS, help="seconds, at the end")
    parser.add_argument("--samples", type=Path, help="a file for all samples, as JSON")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr, flush=True)
    return run(_soak(arguments))


async def _soak(arguments: argparse.Namespace) -> int:
    counts, samples = Counts(), list[Sample]()
    with tempfile.TemporaryDirectory(prefix="navi-soak-") as directory:
        said = Path(directory) / "inside"
        async with service("bench.service.inside", **{VARIABLE: str(said)}) as (navi, model):
            await _fill(navi, arguments.fill)
            print("filled", file=sys.stderr, flush=True)
            async with open_lag(navi) as lag:
                before, started = used(navi.pid, model.pid), time.monotonic()
                until = started + 60 * arguments.minutes
                sampling = asyncio.create_task(_sample(navi.pid, started, samples, lag))
                async with navi.client() as client, asyncio.TaskGroup() as group:
                    for number in range(arguments.sessions):
                        random = Random(f"{arguments.seed} {number}")  # noqa: S311  # a seed repeats it
                        group.create_task(_talk(navi, client, random, until, counts))
                    while time.monotonic() < until:
                        if sampling.done():
                            sampling.result()
                        await asyncio.sleep(1)
                cores = used(navi.pid, model.pid).shares(before)
                sampling.cancel()
                caught_up = await lag.caught_up()
                await asyncio.sleep(arguments.rest)
                rest = _look(navi.pid, started)
        inside = [msgspec.json.decode(line, type=Inside) for line in said.read_bytes().splitlines()]
    if arguments.samples is not None:
        found = {"samples": samples, "rest": rest, "inside": inside}
        arguments.samples.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    report = _Report(
        counts=counts,
        samples=[sample for sample in samples if sample.minutes <= arguments.minutes],
        rest=rest,
        inside=[line for line in inside if started <= line.at <= until],
        inside_at_rest=inside[-1],
        started=started,
        minutes=arguments.minutes,
    )
    print(report.markdown(cores, lag.most, caught_up))
    broken = [*counts.broken, *report.growths]
    for sentence in broken:
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if broken else 0


# --- what is done to it -------------------------------------------------------------------------


async def _fill(navi: NaviProcess, sessions: int) -> None:
    """Fill what navi keeps of sessions, which is bounded, so that it is full from the beginning."""
    waiting = iter(range(sessions))

    async def one(client: httpx.AsyncClient) -> None:
        for _ in waiting:
            session_id = (await asked(client, "POST", "/sessions", {})).json()["id"]
            body = {"content": Pace(pieces=30, a_second=0).message, "message_id": "m"}
            await asked(client, "POST", f"/sessions/{session_id}/messages", body)

    async with navi.client() as client:
        await asyncio.gather(*(one(client) for _ in range(FILL_AT_ONCE)))


async def _talk(
    navi: NaviProcess, client: httpx.AsyncClient, random: Random, until: float, counts: Counts
) -> None:
    """Session after session, until the time is over."""
    await asyncio.sleep(random.uniform(0, 5))
    while time.monotonic() < until:
        session_id = (await asked(client, "POST", "/sessions", {})).json()["id"]
        viewers = [Viewer(navi.url, session_id) for _ in range(random.choice((1, 1, 2, 3)))]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(viewer.run()) for viewer in viewers]
                tasks += [group.create_task(_break(viewer, random, counts)) for viewer in viewers]
                await _turns(client, viewers, random, until, counts)
                for task in tasks:
                    task.cancel()
            counts.broken += filter(None, [await viewer.missed(client) for viewer in viewers])
        except* (AssertionError, TimeoutError, httpx.HTTPError) as errors:
            counts.broken += [f"{session_id}: {error!r}" for error in errors.exceptions]
        for watching in viewers:
            for code, times in watching.closed.items():
                counts.done[f"connections ended with {code}"] += times
        counts.done["sessions"] += 1
        if random.random() < 0.1:
            await asked(client, "DELETE", f"/sessions/{session_id}")
            counts.done["sessions deleted"] += 1


async def _turns(
    client: httpx.AsyncClient,
    viewers: Sequence[Viewer],
    random: Random,
    until: float,
    counts: Counts,
) -> None:
    first = viewers[0]
    turns = random.randint(*TURNS)
    for number in range(turns):
        if time.monotonic() > until and number:
            turns = number
            break
        pace = Pace(
            pieces=random.randint(*PIECES),
            a_second=random.choice(RATES),
            tools=random.random() < 0.4,
        )
        message = {"content": pace.message, "message_id": f"m{number}"}
        sent = await first.send({"type": "message", **message})
        # A client that may have been cut meanwhile says it again, with the same id.
        if not sent or random.random() < 0.2:
            await _post(client, first.session_id, message)
            counts.done["messages said again"] += 1
        if random.random() < 0.15:
            await asyncio.sleep(random.uniform(0, pace.pieces / pace.a_second))
            await asked(client, "POST", f"/sessions/{first.session_id}/stop")
            counts.done["stops"] += 1
        try:
            async with asyncio.timeout(TIMEOUT):
                await first.ended(number + 1)
        except TimeoutError:
            # It was written into a connection that was being cut.
            await _post(client, first.session_id, message)
            counts.done["messages said again late"] += 1
            await first.ended(number + 1)
        counts.done[first.outcomes[-1]] += 1
    for viewer in viewers:
        viewer.reading.set()
        await viewer.ended(turns)
    counts.broken += [
        f"{first.session_id}: a turn failed" for o in first.outcomes if o == "turn_failed"
    ]


async def _post(client: httpx.AsyncClient, session_id: str, message: dict[str, str]) -> None:
    await asked(client, "POST", f"/sessions/{session_id}/messages?wait=false", message)


async def _break(viewer: Viewer, random: Random, counts: Counts) -> None:
    """Cut the client's connection, or let it not read for a while, at random moments."""
    while True:
        await asyncio.sleep(random.expovariate(1 / 5.0))
        if random.random() < 0.6:
            viewer.cut()
            counts.done["connections cut"] += 1
            continue
        viewer.reading.clear()
        counts.done["pauses in reading"] += 1
        try:
            await asyncio.sleep(random.uniform(0.5, 10))
        finally:
            viewer.reading.set()


# --- what it does to navi -----------------------------------------------------------------------


def _look(pid: int, started: float) -> Sample:
    return Sample(
        minutes=(time.monotonic() - started) / 60,
        memory=memory_of(pid),
        memory_of_nats=memory_of_nats(pid),
        files=files_of(pid),
        threads=threads_of(pid),
        backends=backends_of(pid),
        load_average=os.getloadavg()[0],
    )


async def _sample(pid: int, started: float, samples: list[Sample], lag: Lag) -> None:
    while True:
        samples.append(_look(pid, started))
        print(f"{json.dumps(msgspec.to_builtins(samples[-1]))}", file=sys.stderr, flush=True)
        with suppress(NatsTimeout):
            await lag.look()
        await asyncio.sleep(SAMPLE_SECONDS)


class _Report:
    """What the samples say."""

    def __init__(
        self,
        *,
        counts: Counts,
        samples: Sequence[Sample],
        rest: Sample,
        inside: Sequence[Inside],
        inside_at_rest: Inside,
        started: float,
        minutes: float,
    ) -> None:
        self._counts = counts
        self._samples = samples
        self._rest = rest
        self._inside_at_rest = inside_at_rest
        self._minutes = minutes
        warm = WARM_UP * minutes
        late = [sample for sample in samples if sample.minutes >= warm]
        at = [sample.minutes for sample in late]
        told = [line for line in inside if (line.at - started) / 60 >= warm]
        told_at = [(line.at - started) / 60 for line in told]
        # Name, values of the time that counts, at rest, and what it may grow in a minute.
        self._measures = [
            ("memory of navi, MiB", at, [s.memory for s in late], rest.memory, MOST_GROWTH),
            ("memory of NATS, MiB", at, [s.memory_of_nats for s in late], rest.memory_of_nats, None),
            ("file descriptors", at, [float(s.files) for s in late], rest.files, 2.0),
            ("threads", at, [float(s.threads) for s in late], rest.threads, 0.5),
            ("processes of Postgres", at, [float(s.backends) for s in late], rest.backends, 0.5),
            ("tasks", told_at, [float(i.tasks) for i in told], inside_at_rest.tasks, 10.0),
            ("blocks of memory in Python", told_at, [float(i.blocks) for i in told], inside_at_rest.blocks, None),
        ]  # fmt: skip

    @property
    def growths(self) -> list[str]:
        """What grows more than it may."""
        return [
            f"{name}: grows by {_slope(at, values):.2f} a minute, {bound:g} are allowed"
            for name, at, values, _, bound in self._measures
            if bound is not None and _slope(at, values) > bound
        ]

    def markdown(self, cores: dict[str, float], behind: int, caught_up: float) -> str:
        loads = [sample.load_average for sample in self._samples]
        did = ", ".join(f"{times:,} {name}" for name, times in sorted(self._counts.done.items()))
        took = ", ".join(f"{name} {share:.2f}" for name, share in cores.items())
        lines = [
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, {self._minutes:.1f} minutes, "
            f"load average {min(loads):.1f} to {max(loads):.1f}",
            "",
            "| | start | least | most | at the end | at rest | grows a minute | may |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name, at, values, rest, bound in self._measures:
            # In a soak of seconds nothing may have been told in the time that counts.
            told = (values[0], min(values), max(values), values[-1]) if values else ()
            middle = [*(f"{value:,.0f}" for value in told), f"{rest:,.0f}"]
            middle = ["none"] * (5 - len(middle)) + middle
            lines.append(
                f"| {name} | {' | '.join(middle)} | {_slope(at, values):+.2f} "
                f"| {'' if bound is None else f'{bound:g}'} |"
            )
        again = ", ".join(f"{times:,} {name}" for name, times in sorted(asked_again.items()))
        lines += [
            "",
            f"Start and growth are from {WARM_UP * self._minutes:.1f} minutes on. Done: {did}. "
            f"Cores: {took}. NATS was at most {behind:,} events behind, and level {caught_up:.2f} s "
            f"after the end. Requests made again: {again or 'none'}. Broken: {len(self._counts.broken)}.",
        ]
        return "\n".join(lines)


def _slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Of the straight line through them, by least squares."""
    if len(set(at)) < 2:
        return 0.0
    return statistics.linear_regression(at, values).slope


if __name__ == "__main__":
    sys.exit(main())
