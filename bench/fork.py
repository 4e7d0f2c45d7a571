"""Forking: what it takes and what it writes, from a short session and from a long one."""

import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import asyncpg

from bench.measure import Figure, Pace, at_most, in_turns, ratios
from bench.servers import Servers, Store, open_store
from bench.turn import PROJECTIONS
from bench.workload import EVENTS, fill
from navi.adapters.files.uploads import FolderUploads
from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.system import RandomIds, SystemClock
from navi.application.commands.fork_session import SessionForker
from navi.application.followers.project import Projector
from navi.domain.vocabulary.ids import SessionId

SHORT, LONG = 110, 10_010  # events, which are 2 turns and 182
BEFORE_END = 40  # events; among the tools of the last turn, so that the fork is moved down
FORKS = 15  # in one measurement, whose median counts


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 11: milliseconds and bytes of WAL of a fork, with nothing remembered of the origin."""
    async with servers.database() as dsn:
        async with open_store(dsn) as writer:
            events = min(LONG, pace.long * EVENTS)
            long, short = await _filled(writer, events), await _filled(writer, SHORT)
            await Projector(writer.log, writer.read_models, PROJECTIONS, SystemClock()).caught_up()
        observer = await asyncpg.connect(dsn)
        try:
            async with open_store(dsn) as store:  # another process: nothing is in its memory
                forks = {"long": long, "short": short}
                measures: dict[str, Callable[[], Awaitable[float]]] = {
                    name: partial(_milliseconds, store, servers.directory, *origin)
                    for name, origin in forks.items()
                }
                await measures["short"]()  # connections prepare statements
                times = await in_turns(pace.rounds, measures)
                written = await in_turns(
                    pace.rounds,
                    {
                        name: partial(_bytes, observer, measure)
                        for name, measure in measures.items()
                    },
                )
        finally:
            await observer.close()
    return [
        Figure(
            row=11,
            what=f"a fork of {events:,} events / of {SHORT}: time",
            values=ratios(times["long"], times["short"]),
            target=at_most(1.25),
            beside={f"{name}, ms": statistics.median(values) for name, values in times.items()},
        ),
        Figure(
            row=11,
            what="the same: WAL",
            values=ratios(written["long"], written["short"]),
            target=at_most(1.15),
            beside={
                f"{name}, bytes": statistics.median(values) for name, values in written.items()
            },
        ),
    ]


async def _filled(store: Store, events: int) -> tuple[SessionId, int]:
    """A session of so many events, and where to fork it."""
    record = await store.create()
    head = await fill(store, record.id, turns=events // EVENTS)
    return record.id, head - BEFORE_END


async def _milliseconds(store: Store, files: Path, session_id: SessionId, at: int) -> float:
    times: list[float] = []
    for _ in range(FORKS):
        fork = SessionForker(
            store.log,
            store.read_models,
            store.records(),
            FolderWorkspaces(files),
            FolderUploads(files, SystemClock()),
            RandomIds(),
        )
        started = time.perf_counter()
        await fork(session_id, at=at)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def _bytes(observer: asyncpg.Connection, measure: Callable[[], Awaitable[float]]) -> float:
    before = await observer.fetchval("select pg_current_wal_insert_lsn()")
    await measure()
    after = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8"
    return await observer.fetchval(after, before) / FORKS
