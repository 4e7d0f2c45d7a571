"""``python -m bench.growth``: what people and programs do, on a log of a few sessions and on one of millions of events.

Two navis run beside each other, one on a small log and one on a large one, and take turns, so that what
the machine does meanwhile concerns both. A session is nine turns of five tool calls, 496 events.
"""

import argparse
import asyncio
import itertools
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx
from msgspec import Struct, field, structs, to_builtins

from bench.measure import in_turns, ratios
from bench.servers import Store, new_id, open_store
from bench.workload import EVENTS, whole_turn
from navi.adapters.embedded.servers import EmbeddedServers
from navi.adapters.postgres.migrate import migrate
from navi.adapters.system import SystemClock
from navi.application.audit.verify_log import verify_session
from navi.application.followers.project import Projector
from navi.domain.session.session import FOLLOWING
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import (
    AgentEvent,
    ModelCalled,
    ModelReplied,
    Purpose,
    SessionCreated,
    SessionRenamed,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, EventId, NodeId, SessionId, TurnId
from navi.ports.event_log import Append, NewEvent
from navi.projections.registry import PROJECTIONS
from tests.support.cluster import give_cluster
from tests.support.navi_process import NaviProcess, running_navi

TURNS = 9  # of a session
SESSION_EVENTS = 1 + TURNS * EVENTS + 2 * len(FOLLOWING) + 1
MEASURED = 20  # sessions, of either log
WRITERS = 10  # sessions at once
BEHIND = """
    select min(c.position) < (select max(e.position) from navi.event e) from navi.checkpoint c"""
AT_ONCE = WRITERS * SESSION_EVENTS
FOR_BULK = {"max_wal_size": "8GB"}
TARGET = 1.25  # times what it takes on the small log
LONG = 3600.0  # seconds
SENTENCES, WORDS_SAID, WORDS_KNOWN = 500, 60, 5_000
NAME = 6  # words


class Size(Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        small: events of the small log.
        large: events of the large log, or what `seconds` allow.
        rounds: in each of which either navi has its turn.
        repeats: of one measurement, whose median counts.
    """

    small: int
    large: int
    seconds: float
    rounds: int
    repeats: int


FULL = Size(small=10_000, large=10_000_000, seconds=600, rounds=5, repeats=20)
SHORTEST = Size(small=1_000, large=2_000, seconds=30, rounds=1, repeats=1)


class Row(Struct, frozen=True, kw_only=True):
    """A line of the report; ``target`` is at most, None where the line is there to be read beside others."""

    what: str
    value: float
    unit: str = "x"
    target: float | None = None
    beside: dict[str, float] = {}


class Words:
    """What is said: sentences of words as rare as in a language, and one word that a session has alone."""

    def __init__(self) -> None:
        source = random.Random(14)  # noqa: S311  # the same words in every run
        letters = "abcdefghijklmnoprstuvwz"
        known = [
            "".join(source.choices(letters, k=source.randint(3, 9))) for _ in range(WORDS_KNOWN)
        ]
        self.often = known[0]
        weights = [1 / place for place in range(1, WORDS_KNOWN + 1)]
        said = (source.choices(known, weights, k=WORDS_SAID) for _ in range(SENTENCES))
        self._sentences = itertools.cycle([" ".join(words) for words in said])

    def sentence(self, alone: str) -> str:
        return f"{alone} {next(self._sentences)}"


class Filled(Struct, kw_only=True):
    """What is in a log: its events, and its sessions with the word that is said in each of them alone."""

    events: int = 0
    sessions: list[tuple[SessionId, str]] = field(default_factory=list[tuple[SessionId, str]])


async def fill(store: Store, words: Words, events: int, *, seconds: float) -> Filled:
    """Fill a log and its read models with so many events, or with what the time allows."""
    filled = Filled()
    until = time.monotonic() + seconds
    # Folded from what this process appended just now, a few sessions from beginning to end at a time.
    projector = Projector(
        store.log, store.read_models, PROJECTIONS, SystemClock(), batch_events=AT_ONCE
    )
    while filled.events < events and time.monotonic() < until:
        left = math.ceil((events - filled.events) / SESSION_EVENTS)
        sessions = (_written(store, words, filled) for _ in range(min(WRITERS, left)))
        await asyncio.gather(_again(projector.caught_up), *sessions)
    await _again(projector.caught_up)
    return filled


async def _written(store: Store, words: Words, filled: Filled) -> None:
    session_id, alone = SessionId(new_id()), f"alone{len(filled.sessions)}x"
    filled.sessions.append((session_id, alone))
    news = tuple(_session(words, alone))
    filled.events += len(news)
    batch = Append(session_id=session_id, owner=LOCAL_OWNER, expected=0, events=news)
    while await store.log.head(session_id) == 0:
        await _again(lambda: store.log.append(batch))


async def _again(work: Callable[[], Awaitable[object]]) -> None:
    """Do what a checkpoint of this very load may hold up; once more where it did."""
    with suppress(LogUnavailable):
        await work()


class Grown:
    """A navi on a log that was filled; each measurement takes the same few of its sessions."""

    def __init__(
        self, navi: NaviProcess, client: httpx.AsyncClient, dsn: str, words: Words, filled: Filled
    ) -> None:
        self.navi = navi
        self.dsn = dsn
        self.events = filled.events
        self.sessions = len(filled.sessions)
        self.often = words.often[:2]
        self._client = client
        # As many of either log, all over it: what is warm by now is warm in both.
        step = max(1, self.sessions // MEASURED)
        self._measured = itertools.cycle(filled.sessions[::step][:MEASURED])

    async def asked(self, *paths: str) -> float:
        """Milliseconds until some routes have answered, one after another."""
        started = time.perf_counter()
        for path in paths:
            (await self._client.get(path)).raise_for_status()
        return (time.perf_counter() - started) * 1000

    def session(self) -> tuple[SessionId, str]:
        """The next of the sessions, and the word that is said in it alone."""
        return next(self._measured)

    async def caught_up(self) -> None:
        """Wait until read models, memories and NATS have all of it, and Postgres has cleared up behind them."""
        connection = await asyncpg.connect(self.dsn)
        try:
            async with asyncio.timeout(LONG):
                while await self._behind() or await connection.fetchval(BEHIND):  # noqa: ASYNC110  # it is another process
                    await asyncio.sleep(0.5)
            await connection.execute("vacuum (analyze)")  # as it does by itself, in the midst of it
        finally:
            await connection.close()

    async def _behind(self) -> bool:
        return ((await self.navi.get("/node"))["nats"]["lag"] or 0) > 0


def _session(words: Words, alone: str) -> Iterator[NewEvent]:
    yield _new(SessionCreated(profile_id="assistant", owner=LOCAL_OWNER), None)
    seq = 1
    for _ in range(TURNS):
        turn_id = TurnId(new_id())
        for event in itertools.chain(*whole_turn(receipt_seq=seq + 1)):
            seq += 1
            yield _new(_worded(event, words, alone), turn_id)
    for purpose in FOLLOWING:  # which a node would do now, in the middle of what is measured
        called, replied = _aside(purpose)
        yield _new(called, None)
        yield _new(replied, None)
    yield _new(SessionRenamed(name=" ".join(words.sentence(alone).split()[:NAME]), by="auto"), None)


def _aside(purpose: Purpose) -> tuple[ModelCalled, ModelReplied]:
    """A call outside of turns, and its answer."""
    events = tuple(itertools.chain(*whole_turn(receipt_seq=1)))
    [called, *_] = (event for event in events if isinstance(event, ModelCalled))
    [*_, replied] = (event for event in events if isinstance(event, ModelReplied))
    call_id = CallId(new_id())
    return (
        structs.replace(called, call_id=call_id, purpose=purpose, node=NodeId(new_id())),
        structs.replace(replied, call_id=call_id, content=""),
    )


def _worded(event: AgentEvent, words: Words, alone: str) -> AgentEvent:
    if isinstance(event, UserMessageReceived):
        return structs.replace(event, content=words.sentence(alone))
    if isinstance(event, ModelReplied) and event.content:
        return structs.replace(event, content=words.sentence(alone))
    return event


def _new(event: AgentEvent, turn_id: TurnId | None) -> NewEvent:
    at = datetime.now(UTC)
    return NewEvent(id=EventId(new_id()), at=at, turn_id=turn_id, subagent_id=None, event=event)


# --- what takes how long, in milliseconds ---

Measure = Callable[[Grown], Awaitable[float]]


async def _opened(grown: Grown) -> float:
    session_id, _ = grown.session()
    return await grown.asked(f"/sessions/{session_id}", f"/sessions/{session_id}/messages?limit=50")


async def _listed(grown: Grown) -> float:
    return await grown.asked(f"/sessions?limit={MEASURED}")


async def _searched(grown: Grown) -> float:
    _, alone = grown.session()
    return await grown.asked(f"/search?query={alone}")


async def _searched_as_typed(grown: Grown) -> float:
    return await grown.asked(f"/search?query={grown.often}")


async def _verified(grown: Grown) -> float:
    session_id, _ = grown.session()
    async with open_store(grown.dsn) as store:
        started = time.perf_counter()
        verdict = await verify_session(store.log, session_id)
        taken = (time.perf_counter() - started) * 1000
    assert verdict.ok
    return taken


async def _forked(grown: Grown) -> float:
    session_id, _ = grown.session()
    started = time.perf_counter()
    await grown.navi.post(f"/sessions/{session_id}/fork", {"at": SESSION_EVENTS})
    return (time.perf_counter() - started) * 1000


async def _first_text(grown: Grown) -> float:
    session_id, _ = grown.session()
    async with grown.navi.socket(session_id) as socket:
        started = time.perf_counter()
        await grown.navi.drop(session_id, "!say Here.")
        async with asyncio.timeout(60):
            async for frame in socket:
                if json.loads(frame)["type"] == "text_delta":
                    return (time.perf_counter() - started) * 1000
    raise AssertionError("the socket closed before the first text")


MEASURES: dict[str, Measure] = {
    "a session is opened: its row and its last 50 messages": _opened,
    f"{MEASURED} sessions are listed": _listed,
    "a search for a word that one session has": _searched,
    "a search for the first letters of a word that most have": _searched_as_typed,
    f"a session of {SESSION_EVENTS} events is verified": _verified,
    "a session is forked at its end": _forked,
    "the first text of an answer": _first_text,
}


async def measure(small: Grown, large: Grown, size: Size) -> AsyncGenerator[Row, None]:
    """How much longer each takes on the large log."""
    for what, once in MEASURES.items():
        for grown in (small, large):
            await once(grown)  # what is made once is made here
        times = await in_turns(
            size.rounds,
            {
                "small": lambda once=once: _median(once, small, size.repeats),
                "large": lambda once=once: _median(once, large, size.repeats),
            },
        )
        yield Row(
            what=what,
            value=statistics.median(ratios(times["large"], times["small"])),
            target=TARGET,
            beside={f"{name}, ms": statistics.median(found) for name, found in times.items()},
        )


async def _median(once: Measure, grown: Grown, repeats: int) -> float:
    return statistics.median([await once(grown) for _ in range(repeats)])


async def keeping(large: Grown) -> AsyncGenerator[Row, None]:
    """What the large log takes on the disk, to be verified, and what a prune gives back."""
    connection = await asyncpg.connect(large.dsn)
    try:
        events = await connection.fetchval("select count(*) from navi.event")
        before = await connection.fetchval("select pg_database_size(current_database())")
        yield Row(what="Postgres on the disk, an event", value=before / events, unit="bytes")
        verified = await _seconds(large.navi.command("verify", within=LONG))
        yield Row(what="navi verify of the whole log", value=events / verified, unit="events/s")
        prune = ("prune", "--deltas", "--older-than", "1s")
        pruned = await _seconds(large.navi.command(*prune, within=LONG))
        yield Row(what="navi prune of all texts of deltas", value=pruned, unit="s")
        vacuumed = await _seconds(connection.execute("vacuum"))
        after = await connection.fetchval("select pg_database_size(current_database())")
        yield Row(
            what="vacuum afterwards",
            value=vacuumed,
            unit="s",
            beside={"MiB before": before / 2**20, "MiB after": after / 2**20},
        )
    finally:
        await connection.close()


async def _seconds(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def run(size: Size) -> AsyncGenerator[Row, None]:
    """All the lines, each as soon as it is known: of millions of events they take half an hour."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="navi-bench-")))
        words = Words()
        small_log = await _filled(directory / "small", words, size.small, seconds=size.seconds)
        started = time.perf_counter()
        large_log = await _filled(directory / "large", words, size.large, seconds=size.seconds)
        filled = time.perf_counter() - started
        small = await stack.enter_async_context(_started(directory / "small", words, small_log))
        large = await stack.enter_async_context(_started(directory / "large", words, large_log))
        followed = await _seconds(large.caught_up())
        await small.caught_up()
        yield Row(
            what=f"{large.events:,} events of {large.sessions:,} sessions appended, with read models",
            value=large.events / filled,
            unit="events/s",
            beside={"s until NATS had them as well": followed},
        )
        for lines in (measure(small, large, size), keeping(large)):
            async with aclosing(lines):
                async for row in lines:
                    yield row


async def _filled(data_dir: Path, words: Words, events: int, *, seconds: float) -> Filled:
    """Fill a data directory before navi is started on it: nothing of the log is in its memory then."""
    await give_cluster(data_dir)
    async with await EmbeddedServers.start(
        data_dir, postgres=True, nats=False, nats_port=0, postgres_settings=FOR_BULK
    ) as servers:
        assert servers.addresses.database_url is not None
        await migrate(servers.addresses.database_url)
        async with open_store(servers.addresses.database_url) as store:
            return await fill(store, words, events, seconds=seconds)


@asynccontextmanager
async def _started(data_dir: Path, words: Words, filled: Filled) -> AsyncGenerator[Grown, None]:
    async with running_navi(data_dir) as navi, navi.client() as client:
        status = (await navi.command("status", "--json")).json
        yield Grown(navi, client, status["database_url"], words, filled)


def main() -> int:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--events", type=int, metavar="N", help="of the large log (10,000,000)")
    parser.add_argument(
        "--shortest", action="store_true", help="whether it runs, not what it costs"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    size = SHORTEST if arguments.shortest else FULL
    if arguments.events is not None:
        size = structs.replace(size, large=arguments.events)
    asyncio.run(_print(size, as_json=arguments.json))
    return 0


async def _print(size: Size, *, as_json: bool) -> None:
    rows: list[Row] = []
    async with aclosing(run(size)) as lines:
        async for row in lines:
            rows.append(row)
            if as_json:
                continue
            beside = "; ".join(f"{name} {value:,.4g}" for name, value in row.beside.items())
            wanted = "" if row.target is None else f", at most {row.target:g} wanted"
            said = f"{row.what}: {row.value:,.4g} {row.unit}{wanted}{f' ({beside})' * bool(beside)}"
            print(said, flush=True)
    if as_json:
        print(json.dumps(to_builtins(rows), indent=2))


if __name__ == "__main__":
    sys.exit(main())
