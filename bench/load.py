"""Opening a session: the fold of its whole log, and what a turn needs by way of the read models."""

import statistics
import time

from bench.measure import Figure, Pace, at_most, in_turns, ratios
from bench.raw import RawStreams, encode_steps, open_raw
from bench.servers import Servers, Store, new_id, open_store
from bench.turn import PROJECTIONS, compressed
from bench.workload import fill, whole_turn
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.read_session import replay_session
from navi.domain.vocabulary.ids import SessionId
from navi.projections.context import Context

SHORT = 30  # turns
SESSIONS = 3  # of each length, opened one after another
REPEATS = 5  # in one measurement, whose median counts


async def run(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 7: milliseconds to a context, from the log and from read models."""
    async with servers.database() as dsn, open_raw(dsn) as raw:
        async with open_store(dsn) as writer:
            session_id = (await writer.create()).id
            await fill(writer, session_id, turns=pace.long)
            long = [await compressed(writer, pace.long) for _ in range(SESSIONS)]
            short = [await compressed(writer, SHORT) for _ in range(SESSIONS)]
            await Projector(writer.log, writer.read_models, PROJECTIONS, SystemClock()).caught_up()
        stream = await _raw_session(raw, turns=pace.long)
        # Another process, with nothing of all this in its memory.
        async with open_store(dsn) as store:
            times = await in_turns(
                pace.rounds,
                {
                    "raw": lambda: _raw(raw, stream),
                    "same": lambda: _raw(raw, stream, Context().reads),
                    "replay": lambda: _replay(store, session_id),
                    "long": lambda: _open(store, long),
                    "short": lambda: _open(store, short),
                },
            )
    middle = {name: statistics.median(values) for name, values in times.items()}
    return [
        Figure(
            row=7,
            what=f"{pace.long} turns from the log to a folded context / bare select and decode of all rows",
            values=ratios(times["replay"], times["raw"]),
            target=at_most(1.5),
            beside={
                "navi, ms": middle["replay"],
                "raw, ms": middle["raw"],
                "raw, of what a context reads, ms": middle["same"],
            },
        ),
        Figure(
            row=7,
            what=f"opened for a turn from the read models, contexts of ten turns: {pace.long} / {SHORT} turns",
            values=ratios(times["long"], times["short"]),
            target=at_most(1.15),
            beside={f"{pace.long}, ms": middle["long"], f"{SHORT}, ms": middle["short"]},
        ),
    ]


async def _raw_session(raw: RawStreams, *, turns: int) -> str:
    stream, seq = new_id(), 0
    steps = encode_steps(whole_turn(receipt_seq=1))
    turn = ([name for names, _ in steps for name in names], [b for _, bs in steps for b in bs])
    for _ in range(turns):
        seq = await raw.write(stream, [turn], after=seq)
    return stream


async def _raw(raw: RawStreams, stream: str, types: frozenset[str] | None = None) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await raw.load(stream, types)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


async def _replay(store: Store, session_id: SessionId) -> float:
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        head = await store.log.head(session_id)
        await replay_session(store.log, Context(), session_id, until=head)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


async def _open(store: Store, sessions: list[SessionId]) -> float:
    times: list[float] = []
    for number in range(REPEATS + 1):
        for session_id in sessions:
            started = time.perf_counter()
            record = await store.records().open(session_id)
            await record.context()
            await record.todo()
            if number > 0:  # the first time, connections prepare statements
                times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000
