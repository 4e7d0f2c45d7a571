"""A durable turn: one session, sixteen at once, the three hundredth, and what it writes ahead."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import asyncpg

from bench.measure import Figure, Pace, at_least, at_most, in_turns, ratios
from bench.raw import EncodedStep, RawGroup, RawStreams, encode_steps, open_group, open_raw
from bench.servers import Servers, Store, new_id, open_store
from bench.workload import append_many, fill, payload_bytes, run_turn, whole_turn
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.session.record import Record
from navi.domain.vocabulary.events import ContextCompressed
from navi.domain.vocabulary.ids import SessionId
from navi.projections.registry import PROJECTIONS

AT_ONCE = 16
KEPT = 10  # turns that a compressed context holds
Turn = Callable[[], Awaitable[None]]


async def single(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 3: milliseconds of a turn, each step awaited."""
    async with servers.database() as dsn, open_store(dsn) as store, open_raw(dsn) as raw:
        record = await store.create()
        stream = RawStream(raw)
        times = await in_turns(
            pace.rounds,
            {
                "raw": lambda: in_a_row(stream.turn, pace.turns),
                "navi": lambda: in_a_row(lambda: run_turn(record, store.node), pace.turns),
            },
        )
    return [
        Figure(
            row=3,
            what="one session, a durable turn in 22 commits / bare inserts",
            values=ratios(times["navi"], times["raw"]),
            target=at_most(1.4),
            beside=_beside(times, "ms"),
        )
    ]


async def sixteen(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 4: turns a second of sixteen sessions that each await every step."""
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context(servers.database())
        store = await stack.enter_async_context(open_store(dsn))
        records = [await store.create() for _ in range(AT_ONCE)]
        streams: list[RawStream] = []
        for number in range(AT_ONCE):
            raw = await stack.enter_async_context(open_raw(dsn, fresh=number == 0))
            streams.append(RawStream(raw))
        group = await stack.enter_async_context(open_group(dsn))
        grouped = [RawStream(group) for _ in range(AT_ONCE)]
        rates = await in_turns(
            pace.rounds,
            {
                "raw": lambda: side_by_side([stream.turn for stream in streams], pace.seconds),
                "group": lambda: side_by_side([stream.turn for stream in grouped], pace.seconds),
                "navi": lambda: side_by_side([turns_of(r, store) for r in records], pace.seconds),
            },
        )
    return [
        Figure(
            row=4,
            what="16 sessions at once, turns a second / bare inserts of what waits, one statement at a time",
            values=ratios(rates["navi"], rates["group"]),
            target=at_least(0.45),
        ),
        Figure(
            row=4,
            what="16 sessions at once, turns a second / bare inserts on 16 connections",
            values=ratios(rates["navi"], rates["raw"]),
            target=at_least(0.5),
            beside=_beside(rates, "turns/s"),
        ),
    ]


async def growth(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 5: turn 300 against turn 1, kept in memory; and with nothing remembered, against turn 11.

    A process that has forgotten a session (or is another one) opens it for the turn: then the context
    has to be loaded, which is as long as compression leaves it, so both contexts hold ten turns.
    """
    kept: list[float] = []
    opened: list[float] = []
    async with servers.database() as dsn, open_store(dsn) as store:
        old = await store.create()
        await fill(store, old.id, turns=pace.long - 1)
        await old.refresh()
        for _ in range(pace.rounds):
            kept.append(await _old_against_young(store, old, pairs=pace.turns // 2))
        sessions = [
            (await compressed(store, pace.long), await compressed(store, KEPT))
            for _ in range(max(2, pace.turns // 8))
        ]
        for _ in range(pace.rounds):
            await Projector(store.log, store.read_models, PROJECTIONS, SystemClock()).caught_up()
            opened.append(await _opened(dsn, sessions))
    return [
        Figure(
            row=5,
            what=f"turn {pace.long} / turn 1, the session kept in memory",
            values=tuple(kept),
            target=at_most(1.15),
        ),
        Figure(
            row=5,
            what=f"turn {pace.long} / turn 11, opened with nothing remembered, contexts of ten turns",
            values=tuple(opened),
            target=at_most(1.15),
        ),
    ]


async def _old_against_young(store: Store, old: Record, *, pairs: int) -> float:
    late: list[float] = []
    early: list[float] = []
    for number in range(pairs):
        young = await store.create()
        pair = [(late, old), (early, young)]
        for times, record in pair if number % 2 == 0 else reversed(pair):
            times.append(await _one(partial(run_turn, record, store.node)))
    return statistics.median(late) / statistics.median(early)


async def _opened(dsn: str, sessions: Sequence[tuple[SessionId, SessionId]]) -> float:
    late: list[float] = []
    early: list[float] = []
    # Another process: the rows are in no memory of its own.
    async with open_store(dsn) as store:
        stranger = await store.create()
        await run_turn(stranger, store.node)  # the first one prepares statements
        for number, (long, short) in enumerate(sessions):
            pair = [(late, long), (early, short)]
            for times, session_id in pair if number % 2 == 0 else reversed(pair):
                times.append(await _one(partial(_turn_of_stranger, store, session_id)))
    return statistics.median(late) / statistics.median(early)


async def _turn_of_stranger(store: Store, session_id: SessionId) -> None:
    record = await store.records().open(session_id)
    await record.context()
    await record.todo()
    await run_turn(record, store.node)


async def compressed(store: Store, turns: int) -> SessionId:
    """A session of so many turns whose context holds the last ten."""
    record = await store.create()
    before = await fill(store, record.id, turns=turns - KEPT)
    summary = ContextCompressed(
        summary="s" * 2000,
        kept_from_seq=before + 1,
        tokens_before=30_000,
        tokens_after=9_000,
        trigger="pre_turn",
    )
    await append_many(store, record.id, summary, count=1)
    await fill(store, record.id, turns=KEPT)
    return record.id


async def written_ahead(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 6: bytes of WAL a turn, as a multiple of its payload."""
    turns, payload = pace.turns * 2, payload_bytes()
    async with servers.database() as dsn, open_store(dsn) as store, open_raw(dsn) as raw:
        record, stream = await store.create(), RawStream(raw)
        projector = Projector(store.log, store.read_models, PROJECTIONS, SystemClock())
        observer = await asyncpg.connect(dsn)

        async def with_read_models() -> None:
            await run_turn(record, store.node)
            await projector.caught_up()

        async def wal(turn: Turn) -> float:
            before = await observer.fetchval("select pg_current_wal_insert_lsn()")
            for _ in range(turns):
                await turn()
            after = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8"
            return await observer.fetchval(after, before) / turns / payload

        try:
            # The first change of a page after a checkpoint is written whole; that is the machine's, not ours.
            await wal(stream.turn)
            await wal(with_read_models)
            shares = await in_turns(
                pace.rounds,
                {
                    "raw": lambda: wal(stream.turn),
                    "navi": lambda: wal(lambda: run_turn(record, store.node)),
                    "with read models": lambda: wal(with_read_models),
                },
            )
        finally:
            await observer.close()
    return [
        Figure(
            row=6,
            what="WAL of a turn / its payload",
            values=shares["navi"],
            target=at_most(2.2),
            beside={"payload, bytes": payload},
        ),
        Figure(row=6, what="the same, all read models brought up to date each turn", values=shares["with read models"], target=None),
        Figure(row=6, what="the same, bare inserts", values=shares["raw"], target=None),
    ]  # fmt: skip


class RawStream:
    """A stream of bare inserts, turn after turn."""

    def __init__(self, raw: RawStreams | RawGroup) -> None:
        self._raw = raw
        self._stream = new_id()
        self._seq = 0
        self._steps: list[EncodedStep] = encode_steps(whole_turn(receipt_seq=1))

    async def turn(self) -> None:
        """Insert a turn, a commit a step."""
        self._seq = await self._raw.write(self._stream, self._steps, after=self._seq)


def turns_of(record: Record, store: Store) -> Turn:
    return lambda: run_turn(record, store.node)


async def _one(turn: Turn) -> float:
    started = time.perf_counter()
    await turn()
    return (time.perf_counter() - started) * 1000


async def in_a_row(turn: Turn, turns: int) -> float:
    """The median of some turns, one after another."""
    return statistics.median([await _one(turn) for _ in range(turns)])


async def side_by_side(turns: Sequence[Turn], seconds: float) -> float:
    """Turns a second of sessions that run side by side."""
    done = 0
    started = time.perf_counter()

    async def one(turn: Turn) -> None:
        nonlocal done
        while time.perf_counter() - started < seconds:
            await turn()
            done += 1

    await asyncio.gather(*(one(turn) for turn in turns))
    return done / (time.perf_counter() - started)


def _beside(values: dict[str, tuple[float, ...]], unit: str) -> dict[str, float]:
    return {f"{name}, {unit}": statistics.median(found) for name, found in values.items()}
