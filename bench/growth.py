"""``python -m bench.growth``: what people and programs do, on a log of a few sessions and on one of millions of events.

Two navis run beside each other, one on a small log and one on a large one, and take turns, so that what
the machine does meanwhile concerns both. A session is nine turns of five tool calls, 496 events.
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx
from msgspec import Struct, structs, to_builtins

from bench.measure import in_turns, ratios
from bench.servers import new_id, open_store
from bench.workload import EVENTS, whole_turn
from navi.application.audit.verify_log import verify_session
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import (
    AgentEvent,
    ModelReplied,
    SessionCreated,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId, TurnId
from navi.ports.event_log import Append, NewEvent
from tests.support.navi_process import NaviProcess, running_navi

TURNS = 9  # of a session
SESSION_EVENTS = 1 + TURNS * EVENTS
WRITERS = 8
TARGET = 1.25  # times what it takes on the small log
CAUGHT_UP_SECONDS = 3600.0
SENTENCES, WORDS_SAID, WORDS_KNOWN = 500, 60, 5_000


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


class Grown:
    """A navi whose log was filled, and the sessions in it; each measurement takes others of them."""

    def __init__(self, navi: NaviProcess, client: httpx.AsyncClient, dsn: str) -> None:
        self.navi = navi
        self.dsn = dsn
        self.events = 0
        self._client = client
        self._words = Words()
        self._sessions: list[tuple[SessionId, str]] = []
        self._chosen = random.Random(14)  # noqa: S311  # the same places in every run

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def often(self) -> str:
        """The first letters of a word that most sessions say."""
        return self._words.often[:2]

    async def asked(self, *paths: str) -> float:
        """Milliseconds until some routes have answered, one after another."""
        started = time.perf_counter()
        for path in paths:
            (await self._client.get(path)).raise_for_status()
        return (time.perf_counter() - started) * 1000

    def session(self) -> tuple[SessionId, str]:
        """Any of the sessions, and the word that is said in it alone."""
        return self._chosen.choice(self._sessions)

    async def fill(self, events: int, *, until: float) -> None:
        """Append sessions until so many events are there, or a moment of the monotonic clock has come."""
        async with open_store(self.dsn) as store:

            async def write() -> None:
                while self.events < events and time.monotonic() < until:
                    self.events += SESSION_EVENTS
                    session_id, alone = SessionId(new_id()), f"alone{len(self._sessions)}x"
                    self._sessions.append((session_id, alone))
                    news = tuple(_session(self._words, alone))
                    batch = Append(
                        session_id=session_id, owner=LOCAL_OWNER, expected=0, events=news
                    )
                    while await store.log.head(session_id) == 0:
                        with suppress(
                            LogUnavailable
                        ):  # a checkpoint of this very load may take long
                            await store.log.append(batch)

            await asyncio.gather(*(write() for _ in range(WRITERS)))

    async def caught_up(self) -> None:
        """Wait until read models and NATS have all of it."""
        async with asyncio.timeout(CAUGHT_UP_SECONDS):
            while await self._behind():  # noqa: ASYNC110  # it is another process
                await asyncio.sleep(0.5)

    async def _behind(self) -> bool:
        node = await self.navi.get("/node")
        lags = [one["lag"] for one in node["projections"]]
        return any(lag > 0 for lag in (*lags, node["nats"]["lag"] or 0))


def _session(words: Words, alone: str) -> Iterator[NewEvent]:
    yield _new(SessionCreated(profile_id="assistant", owner=LOCAL_OWNER), None)
    seq = 1
    for _ in range(TURNS):
        turn_id = TurnId(new_id())
        for event in itertools.chain(*whole_turn(receipt_seq=seq + 1)):
            seq += 1
            yield _new(_worded(event, words, alone), turn_id)


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
    return await grown.asked("/sessions?limit=50")


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
    "50 sessions are listed": _listed,
    "a search for a word that one session has": _searched,
    "a search for the first letters of a word that most have": _searched_as_typed,
    f"a session of {SESSION_EVENTS} events is verified": _verified,
    "a session is forked at its end": _forked,
    "the first text of an answer": _first_text,
}


async def measure(small: Grown, large: Grown, size: Size) -> list[Row]:
    """How much longer each takes on the large log."""
    rows: list[Row] = []
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
        rows.append(
            Row(
                what=what,
                value=statistics.median(ratios(times["large"], times["small"])),
                target=TARGET,
                beside={f"{name}, ms": statistics.median(found) for name, found in times.items()},
            )
        )
    return rows


async def _median(once: Measure, grown: Grown, repeats: int) -> float:
    return statistics.median([await once(grown) for _ in range(repeats)])


async def keeping(large: Grown) -> list[Row]:
    """What the large log takes on the disk, to be verified, and what a prune gives back."""
    connection = await asyncpg.connect(large.dsn)
    try:
        events = await connection.fetchval("select count(*) from navi.event")
        before = await connection.fetchval("select pg_database_size(current_database())")
        verified = await _seconds(large.navi.command("verify"))
        pruned = await _seconds(large.navi.command("prune", "--deltas", "--older-than", "1s"))
        vacuumed = await _seconds(connection.execute("vacuum"))
        after = await connection.fetchval("select pg_database_size(current_database())")
    finally:
        await connection.close()
    return [
        Row(what="Postgres on the disk, an event", value=before / events, unit="bytes"),
        Row(what="navi verify of the whole log", value=events / verified, unit="events/s"),
        Row(what="navi prune of all texts of deltas", value=pruned, unit="s"),
        Row(
            what="vacuum afterwards",
            value=vacuumed,
            unit="s",
            beside={"MiB before": before / 2**20, "MiB after": after / 2**20},
        ),
    ]


async def _seconds(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def run(size: Size) -> list[Row]:
    """All the lines."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="navi-bench-")))
        small = await stack.enter_async_context(_started(directory / "small"))
        large = await stack.enter_async_context(_started(directory / "large"))
        await small.fill(size.small, until=time.monotonic() + size.seconds)
        filled = await _seconds(large.fill(size.large, until=time.monotonic() + size.seconds))
        followed = await _seconds(large.caught_up())
        await small.caught_up()
        return [
            Row(
                what=f"{large.events:,} events of {large.sessions:,} sessions appended",
                value=large.events / filled,
                unit="events/s",
                beside={"s until read models and NATS had them as well": followed},
            ),
            *await measure(small, large, size),
            *await keeping(large),
        ]


@asynccontextmanager
async def _started(data_dir: Path) -> AsyncGenerator[Grown, None]:
    async with running_navi(data_dir) as navi, navi.client() as client:
        status = (await navi.command("status", "--json")).json
        yield Grown(navi, client, status["database_url"])


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
    rows = asyncio.run(run(size))
    if arguments.json:
        print(json.dumps(to_builtins(rows), indent=2))
        return 0
    for row in rows:
        beside = "; ".join(f"{name} {value:,.4g}" for name, value in row.beside.items())
        wanted = "" if row.target is None else f", at most {row.target:g} wanted"
        print(f"{row.what}: {row.value:,.4g} {row.unit}{wanted}{f' ({beside})' * bool(beside)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
