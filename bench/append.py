"""What an append costs: events a second through the log, as a ratio to a bare multi-row insert."""

import asyncio
import statistics
import time

from bench.measure import Figure, Pace, at_least, in_turns, ratios
from bench.raw import RawStreams, open_raw
from bench.servers import Servers, Store, new_id, open_store
from bench.workload import AT
from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import AgentEvent, TextDelta, ToolFinished
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, SessionId
from navi.ports.event_log import Append, NewEvent

RAW_ROWS = 1000  # a statement: the best size, and the limit the targets are set against
RAW_STREAMS = 100
CALL = CallId("call_0123456789ab")
SMALL = TextDelta(call_id=CALL, text="x" * 60)  # a piece of text
LARGE = ToolFinished(call_id=CALL, name="read", outcome="ok", output="x" * 230)  # 373 bytes a row


async def batches(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 1: ten and more events an append, two writer connections, one a partition."""
    async with (
        servers.database() as dsn,
        open_store(dsn, partitions=2) as store,
        open_raw(dsn) as raw,
    ):
        rates = await in_turns(
            pace.rounds,
            {
                "raw": lambda: _raw(raw, LARGE, pace.seconds),
                "10": lambda: _navi(store, LARGE, pace.seconds, sessions=200, events=10),
                "55": lambda: _navi(store, LARGE, pace.seconds, sessions=50, events=55),
            },
        )
    return [
        _figure(1, "200 sessions, 10 events an append", rates, "10", 0.6),
        _figure(1, "50 sessions, 55 events an append", rates, "55", 0.6),
    ]


async def singles(servers: Servers, pace: Pace) -> list[Figure]:
    """Row 2: every event awaited by itself."""
    async with servers.database() as dsn, open_store(dsn) as store, open_raw(dsn) as raw:
        rates = await in_turns(
            pace.rounds,
            {
                "raw": lambda: _raw(raw, SMALL, pace.seconds),
                "200": lambda: _navi(store, SMALL, pace.seconds, sessions=200, events=1),
                "1000": lambda: _navi(store, SMALL, pace.seconds, sessions=1000, events=1),
            },
        )
    return [
        _figure(2, "200 sessions, one event an append", rates, "200", 0.3),
        _figure(2, "1000 sessions, one event an append", rates, "1000", 0.3),
    ]


def _figure(
    row: int, what: str, rates: dict[str, tuple[float, ...]], name: str, target: float
) -> Figure:
    return Figure(
        row=row,
        what=f"{what} / a bare insert of {RAW_ROWS} rows",
        values=ratios(rates[name], rates["raw"]),
        target=at_least(target),
        beside={
            "navi, events/s": statistics.median(rates[name]),
            "raw, events/s": statistics.median(rates["raw"]),
        },
    )


async def _raw(raw: RawStreams, event: TextDelta | ToolFinished, seconds: float) -> float:
    """Events a second on one connection."""
    body = encode_data(event)
    streams = [new_id() for _ in range(RAW_STREAMS)]
    types, bodies = [event.TYPE] * RAW_ROWS, [body] * RAW_ROWS
    chosen = [streams[place % RAW_STREAMS] for place in range(RAW_ROWS)]
    rows_each = RAW_ROWS // RAW_STREAMS
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        first = done // RAW_STREAMS + 1
        seqs = [first + place // RAW_STREAMS for place in range(rows_each * RAW_STREAMS)]
        await raw.insert(chosen, seqs, types, bodies)
        done += RAW_ROWS
    return done / (time.perf_counter() - started)


async def _navi(
    store: Store, event: AgentEvent, seconds: float, *, sessions: int, events: int
) -> float:
    """Events a second through the log: sessions that each await every append."""
    done, started = 0, time.perf_counter()

    async def one() -> None:
        nonlocal done
        session_id, seq = SessionId(new_id()), 0
        while not seq or time.perf_counter() - started < seconds:
            news = tuple(
                NewEvent(id=EventId(new_id()), at=AT, turn_id=None, subagent_id=None, event=event)
                for _ in range(events)
            )
            await store.log.append(
                Append(session_id=session_id, owner=LOCAL_OWNER, expected=seq, events=news)
            )
            seq += events
            done += events

    await asyncio.gather(*(one() for _ in range(sessions)))
    return done / (time.perf_counter() - started)
