"""``make load``: many sessions stream at once on one node, others watch, and every client checks what it saw."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from bench.measure import quantile
from bench.service.elsewhere import later_elsewhere
from bench.service.lag import Lag, open_lag
from bench.service.loop import run
from bench.service.machine import machine, memory_of, memory_of_nats, nodes_of, used
from bench.service.paced_model import ModelProcess, Pace, running_model
from bench.service.people import NOBODY, Headers, signed_up
from bench.service.viewer import Viewer, asked
from tests.support.navi_process import NaviProcess, running_navi

WATCHED = 5  # watchers a session, on as many sessions as that makes
RAMP_SECONDS = 1.0  # in which the sessions begin, so that they do not write in step
SAMPLE_SECONDS = 0.5
REST_SECONDS = 3.0
CHECKS_AT_ONCE = 4
LOG_SHOWN = 20_000  # characters of navi's log, where this ends badly


class Phase(Struct, frozen=True, kw_only=True):
    """What a number of sessions saw that streamed at once.

    Attributes:
        first_delta: milliseconds from the client's message to the first text, 50 and 99 of 100.
        delay: milliseconds from the model server's writing of a piece to the client, 50 and 99 of 100.
        deltas_a_second: that the log took, while the sessions streamed.
        frames_a_second: that went out to clients meanwhile.
        cores: of processor each took, 1 being one core.
        memory: MiB of navi: before, at the most, after.
        refused: messages that clients had to send again, since Postgres did not answer in time.
        nats_behind: events, at the most.
        later: milliseconds by which a piece came later to clients at another node than its turn's, 50 and
            99 of 100; None where there is no other.
        nats_caught_up: seconds after the last turn's end.
        load_average: of the machine, over the last minute, before and after.
        broken: what does not hold; nothing where all is well.
    """

    sessions: int
    watchers: int
    pieces: int
    a_second: float
    completed: int
    seconds: float
    first_delta: tuple[float, float]
    delay: tuple[float, float]
    deltas_a_second: float
    frames_a_second: float
    pieces_a_second: float
    cores: dict[str, float]
    memory: tuple[float, float, float]
    memory_of_nats: float
    nats_behind: int
    nats_caught_up: float
    load_average: tuple[float, float]
    refused: int
    later: tuple[float, float] | None
    broken: tuple[str, ...]

    @property
    def milliseconds_a_piece(self) -> float:
        """Processor time that navi itself takes for one piece, with all that surrounds it."""
        return 1000 * self.cores["navi"] / self.pieces_a_second


def main() -> int:
    """Measure what the command line asks for; status 1 where a client missed something."""
    parser = argparse.ArgumentParser(prog="make load ARGS=...", description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=15.0, help="that each answer takes")
    parser.add_argument("--rate", type=float, default=20.0, help="pieces a second of each answer")
    parser.add_argument(
        "--accounts",
        action="store_true",
        help="instead of one session and all: all without accounts, and each with one of its own",
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="instead of one session and all: all at one process, and at so many",
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    pace = Pace(pieces=round(arguments.seconds * arguments.rate), a_second=arguments.rate)
    sessions, watchers = arguments.sessions, arguments.watchers
    heads: Sequence[str] = ()
    if arguments.processes is not None:
        phases = run(_with_processes(sessions, watchers, pace, arguments.processes))
        heads = ["1 process", f"{arguments.processes} processes"]
    elif arguments.accounts:
        phases = run(_with_accounts(sessions, watchers, pace))
        heads = ["no accounts", "a user with an account each"]
    else:
        phases = run(_measure(sessions, watchers, pace))
    if arguments.json:
        print(json.dumps([msgspec.to_builtins(phase) for phase in phases], indent=2))
    else:
        print(_table(phases, heads))
    broken = [sentence for phase in phases for sentence in phase.broken]
    for sentence in broken:
        print(f"BROKEN: {sentence}", file=sys.stderr)
    return 1 if broken else 0


async def _measure(sessions: int, watchers: int, pace: Pace) -> list[Phase]:
    """One session alone, twice since the first warms up, then all at once."""
    async with service() as (navi, model), open_lag(navi) as lag:
        await _phase(navi, model, lag, [NOBODY], 0, _short(pace))
        alone = await _phase(navi, model, lag, [NOBODY], 0, pace)
        return [alone, await _phase(navi, model, lag, [NOBODY] * sessions, watchers, pace)]


async def _with_accounts(sessions: int, watchers: int, pace: Pace) -> list[Phase]:
    """All at once without accounts, then as many users with a session each; a service of its own for both."""
    phases: list[Phase] = []
    for auth in ("none", "accounts"):
        async with service(NAVI_AUTH=auth) as (navi, model), open_lag(navi) as lag:
            signed_in = auth == "accounts"
            people = await signed_up(navi, sessions) if signed_in else [NOBODY] * sessions
            await _phase(navi, model, lag, people[:1], 0, _short(pace))
            phases.append(await _phase(navi, model, lag, people, watchers, pace))
    return phases


async def _with_processes(sessions: int, watchers: int, pace: Pace, processes: int) -> list[Phase]:
    """All at once at one process, then at several; a service of its own for both."""
    phases: list[Phase] = []
    for count in (1, processes):
        async with (
            service(NAVI_PROCESSES=str(count)) as (navi, model),
            open_lag(navi) as lag,
        ):
            await _phase(navi, model, lag, [NOBODY] * 2 * count, 0, _short(pace))
            phases.append(await _phase(navi, model, lag, [NOBODY] * sessions, watchers, pace))
    return phases


def _short(pace: Pace) -> Pace:
    """A few seconds at the most, to warm up."""
    return Pace(pieces=min(pace.pieces, round(3 * pace.a_second)), a_second=pace.a_second)


@asynccontextmanager
async def service(
    module: str = "navi", **settings: str
) -> AsyncGenerator[tuple[NaviProcess, ModelProcess], None]:
    """A ``navi serve`` with Postgres, NATS and data of its own, and its model server."""
    with tempfile.TemporaryDirectory(prefix="navi-load-") as directory:
        async with (
            running_model() as model,
            running_navi(
                Path(directory) / "data",
                module=module,
                NAVI_LLM="ollama",
                OLLAMA_HOST=model.url,
                **{"NAVI_MODEL_SLOTS": "10000", **settings},  # it is navi that is measured
            ) as navi,
        ):
            try:
                yield navi, model
            except BaseException:
                print(navi.log[-LOG_SHOWN:], file=sys.stderr)  # it goes with its directory
                raise


async def _phase(
    navi: NaviProcess,
    model: ModelProcess,
    lag: Lag,
    people: Sequence[Headers],
    watchers: int,
    pace: Pace,
) -> Phase:
    """A session for each of ``people``, whose requests come with these headers."""
    sessions = len(people)
    ids = [await _new_session(navi, headers) for headers in people]

    def viewer_of(number: int) -> Viewer:
        return Viewer(navi.url, ids[number], headers=people[number])

    speakers = [viewer_of(number) for number in range(sessions)]
    watching = [viewer_of(n // WATCHED % sessions) for n in range(watchers)]
    viewers = [*speakers, *watching]
    memory = [memory_of(navi.pid)]
    load_before = os.getloadavg()[0]
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(viewer.run()) for viewer in viewers]
        await asyncio.gather(*(viewer.connected() for viewer in viewers))
        over = asyncio.Event()
        sampling = group.create_task(_sample(navi.pid, memory))
        group.create_task(lag.watch(over))
        lag.most = 0
        before, started = used(navi.pid, model.pid), time.monotonic()
        said = await asyncio.gather(
            *(
                _say(speaker, pace, RAMP_SECONDS * number / sessions)
                for number, speaker in enumerate(speakers)
            )
        )
        ends = await asyncio.gather(
            *(viewer.ended(1) for viewer in viewers), return_exceptions=True
        )
        took, after = time.monotonic() - started, used(navi.pid, model.pid)
        over.set()
        sampling.cancel()
        later = later_elsewhere(nodes_of(navi.pid), viewers)
        caught_up = await lag.caught_up()
        await asyncio.sleep(REST_SECONDS)
        async with navi.client() as client:
            broken = await _broken(client, viewers)
        for task in following:
            task.cancel()
    broken += [f"no end was seen: {end!r}" for end in ends if end is not None]
    broken += [
        f"{speaker.session_id}: a turn ended with {outcome}"
        for speaker in speakers
        for outcome in speaker.outcomes
        if outcome != "turn_completed"
    ]
    broken += [
        f"{viewer.session_id}: {len(viewer.delays)} pieces came of {pace.pieces}"
        for viewer in viewers
        if len(viewer.delays) != pace.pieces
    ]
    broken += [f"{v.session_id}: connections ended: {v.closed}" for v in viewers if v.closed]
    delays = sorted(delay for viewer in viewers for delay in viewer.delays)
    firsts = sorted(
        ((speaker.first_delta or 0.0) - at) * 1000
        for speaker, at in zip(speakers, said, strict=True)
    )
    return Phase(
        sessions=sessions,
        watchers=watchers,
        pieces=pace.pieces,
        a_second=pace.a_second,
        completed=sum(speaker.outcomes == ["turn_completed"] for speaker in speakers),
        seconds=took,
        first_delta=(quantile(firsts, 0.5), quantile(firsts, 0.99)),
        delay=(quantile(delays, 0.5), quantile(delays, 0.99)),
        deltas_a_second=sum(speaker.deltas for speaker in speakers) / took,
        frames_a_second=sum(viewer.deltas for viewer in viewers) / took,
        pieces_a_second=sum(len(speaker.delays) for speaker in speakers) / took,
        cores=after.shares(before),
        memory=(memory[0], max(memory), memory_of(navi.pid)),
        memory_of_nats=memory_of_nats(navi.pid),
        nats_behind=lag.most,
        nats_caught_up=caught_up,
        load_average=(load_before, os.getloadavg()[0]),
        later=(quantile(later, 0.5), quantile(later, 0.99)) if later else None,
        refused=sum(speaker.refused for speaker in speakers),
        broken=tuple(broken),
    )


async def _new_session(navi: NaviProcess, headers: Headers) -> str:
    async with navi.client() as client:
        made = await asked(client, "POST", "/sessions", {}, headers)
    return str(made.json()["id"])


async def _say(speaker: Viewer, pace: Pace, wait: float) -> float:
    """Say the message a little later; gives the moment."""
    await asyncio.sleep(wait)
    now = time.monotonic()
    await speaker.say(pace.message)
    return now


async def _sample(pid: int, memory: list[float]) -> None:
    while True:
        memory.append(memory_of(pid))
        await asyncio.sleep(SAMPLE_SECONDS)


async def _broken(client: httpx.AsyncClient, viewers: Sequence[Viewer]) -> list[str]:
    """What clients missed."""
    at_once = asyncio.Semaphore(CHECKS_AT_ONCE)

    async def check(viewer: Viewer) -> str | None:
        async with at_once:
            return await viewer.missed(client)

    found = await asyncio.gather(*(check(viewer) for viewer in viewers))
    return [sentence for sentence in found if sentence is not None]


def _table(phases: Sequence[Phase], names: Sequence[str]) -> str:
    alone, many = phases
    all_of_them = f"{many.sessions} sessions, {many.watchers} watchers"
    heads = ["", f"{alone.sessions} session", all_of_them]
    if names:
        heads = [all_of_them, *names]
    rows: list[tuple[str, ...]] = [
        ("turns completed", *(f"{p.completed} of {p.sessions}" for p in phases), ""),
        (
            "clients with every event once, in order, as in the log",
            *(
                f"{p.sessions + p.watchers - len(p.broken)} of {p.sessions + p.watchers}"
                for p in phases
            ),
            "",
        ),
        ("messages refused for a moment", *(str(p.refused) for p in phases), ""),
        (
            "pieces the models wrote, a second",
            *(f"{p.pieces_a_second:,.0f}" for p in phases),
            _ratio(alone.pieces_a_second, many.pieces_a_second),
        ),
        (
            "deltas logged, a second",
            *(f"{p.deltas_a_second:,.0f}" for p in phases),
            _ratio(alone.deltas_a_second, many.deltas_a_second),
        ),
        (
            "frames to clients, a second",
            *(f"{p.frames_a_second:,.0f}" for p in phases),
            _ratio(alone.frames_a_second, many.frames_a_second),
        ),
        (
            "message to first text, ms: 50, 99 of 100",
            *(_pair(p.first_delta) for p in phases),
            _ratio(alone.first_delta[0], many.first_delta[0]),
        ),
        (
            "piece written to piece seen, ms: 50, 99 of 100",
            *(_pair(p.delay) for p in phases),
            _ratio(alone.delay[0], many.delay[0]),
        ),
        (
            "seen later at another node, ms: 50, 99 of 100",
            *("" if p.later is None else f"{p.later[0]:.1f}, {p.later[1]:.1f}" for p in phases),
            "",
        ),
        (
            "turns a second",
            *(f"{p.completed / p.seconds:.1f}" for p in phases),
            _ratio(alone.completed / alone.seconds, many.completed / many.seconds),
        ),
        (
            f"seconds for all turns ({alone.pieces} pieces, {alone.a_second:g} a second)",
            *(f"{p.seconds:.1f}" for p in phases),
            _ratio(alone.seconds, many.seconds),
        ),
        (
            "navi's processor time a piece, ms",
            *(f"{p.milliseconds_a_piece:.2f}" for p in phases),
            _ratio(alone.milliseconds_a_piece, many.milliseconds_a_piece),
        ),
        *(
            (
                f"cores: {name}",
                *(f"{p.cores[name]:.2f}" for p in phases),
                "",
            )
            for name in alone.cores
        ),
        (
            "navi's memory, MiB: before, most, after",
            *(" / ".join(f"{mib:.0f}" for mib in p.memory) for p in phases),
            _ratio(alone.memory[1], many.memory[1]),
        ),
        ("memory of NATS, MiB", *(f"{p.memory_of_nats:.0f}" for p in phases), ""),
        ("NATS behind the log, events at the most", *(f"{p.nats_behind:,}" for p in phases), ""),
        (
            "NATS level with the log after the last turn, s",
            *(f"{p.nats_caught_up:.2f}" for p in phases),
            "",
        ),
        (
            "load average before, after",
            *(f"{p.load_average[0]:.1f}, {p.load_average[1]:.1f}" for p in phases),
            "",
        ),
    ]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}",
        "",
        f"| {' | '.join([*heads, 'ratio'])} |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines)


def _pair(values: tuple[float, float]) -> str:
    return f"{values[0]:,.0f}, {values[1]:,.0f}"


def _ratio(one: float, many: float) -> str:
    return f"{many / one:.3g}" if one else ""


if __name__ == "__main__":
    sys.exit(main())
