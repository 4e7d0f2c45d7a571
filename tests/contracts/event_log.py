"""What every event log promises; a log's test inherits it and says how the log is opened."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec import UNSET

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.log.erasure import pruned
from navi.domain.log.export import ExportedEvent
from navi.domain.log.hash_chain import verify_chain
from navi.domain.vocabulary.errors import (
    AlreadyThere,
    BadInput,
    ConcurrentAppend,
    EventTooLarge,
    NotFound,
)
from navi.domain.vocabulary.event_codec import MAX_ENVELOPE_BYTES
from navi.domain.vocabulary.events import (
    DELTA_TYPES,
    AgentEvent,
    ContentErased,
    ModelCalled,
    ModelCallFailed,
    Origin,
    SessionCreated,
    SessionPinned,
    SessionRenamed,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutputDelta,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, EventId, MessageId, Owner, SessionId, uuid7
from navi.ports.event_log import FACTS, Append, NewEvent, Recorded, Selection, Types
from navi.ports.log_admin import LogBackend, Pruned, RestoredSession, SessionHead
from navi.ports.log_partitions import Page

AT = datetime(2026, 11, 20, 10, 0, 0, 123456, tzinfo=UTC)
LATER = AT + timedelta(seconds=1)
ANNA = Owner("anna")
NO_NAME = b'{"erased":true,"name":"[erased]","by":"user"}'
DEADLINE = 60.0  # seconds; a test that waits longer has failed

_numbers = count(1)

Rows = tuple[Recorded, ...]


def new_id() -> str:
    """A UUID that no other event of the test run has."""
    return uuid7(milliseconds=1_700_000_000_000, random=next(_numbers).to_bytes(10))


def new_event(event: AgentEvent) -> NewEvent:
    return NewEvent(id=EventId(new_id()), at=AT, turn_id=None, subagent_id=None, event=event)


def created() -> SessionCreated:
    return SessionCreated(profile_id="default", owner=ANNA)


def forked(session_id: SessionId, seq: int) -> SessionCreated:
    return SessionCreated(
        profile_id="default", owner=ANNA, forked_from=Origin(session_id=session_id, seq=seq)
    )


def named(name: str) -> SessionRenamed:
    return SessionRenamed(name=name, by="user")


def delta(text: str) -> TextDelta:
    return TextDelta(call_id=CallId("c1"), text=text)


def batch(session_id: SessionId, expected: int, *events: AgentEvent) -> Append:
    return Append(
        session_id=session_id,
        owner=ANNA,
        expected=expected,
        events=tuple(map(new_event, events)),
    )


async def joined(batches: AsyncGenerator[Rows, None]) -> Rows:
    """All rows of a read."""
    rows: list[Recorded] = []
    async with aclosing(batches), asyncio.timeout(DEADLINE):
        async for part in batches:
            assert part
            rows.extend(part)
    return tuple(rows)


def tells_secret(rows: Sequence[Recorded]) -> bool:
    return any(b"secret" in row.data for row in rows)


async def watched(log: LogBackend, session_id: SessionId, *, after: int, until: int) -> Rows:
    """What a watcher is given, up to the event ``until``."""
    rows: list[Recorded] = []
    async with asyncio.timeout(DEADLINE), aclosing(log.watch(session_id, after=after)) as live:
        async for part in live:
            assert part
            rows.extend(part)
            if part[-1].seq >= until:
                break
    return tuple(rows)


async def append_on_top(log: LogBackend, session_id: SessionId, event: AgentEvent) -> Recorded:
    """Append one event wherever the session ends, trying again while others are faster."""
    new = new_event(event)
    while True:
        expected = await log.head(session_id)
        try:
            rows = await log.append(
                Append(session_id=session_id, owner=ANNA, expected=expected, events=(new,))
            )
        except ConcurrentAppend:
            continue
        return rows[0]


async def whole_partition(log: LogBackend, *, deltas: bool = True, limit: int = 7) -> Rows:
    """All rows of partition 0, read in small pages."""
    rows: list[Recorded] = []
    after = 0
    while True:
        page = await log.read_all(0, after=after, limit=limit, deltas=deltas)
        assert len(page.rows) <= limit
        rows.extend(page.rows)
        if page.reached == page.head:
            return tuple(rows)
        assert page.reached > after
        after = page.reached


async def moved_from(
    log: LogBackend, *session_ids: SessionId
) -> tuple[list[RestoredSession], AsyncGenerator[Sequence[ExportedEvent], None]]:
    """What ``restore`` takes: sessions of another log, each in batches of its own events."""
    heads = {head.session_id: head for head in await log.sessions(session_ids)}

    async def events() -> AsyncGenerator[Sequence[ExportedEvent], None]:
        for session_id in session_ids:
            async for rows in log.read(session_id):
                yield [stored(row) for row in rows if row.session_id == session_id]

    return [
        RestoredSession(
            session_id=session_id,
            owner=heads[session_id].owner,
            forked_from=heads[session_id].forked_from,
            base_hash=heads[session_id].base_hash,
        )
        for session_id in session_ids
    ], events()


def stored(row: Recorded) -> ExportedEvent:
    return ExportedEvent(**{name: getattr(row, name) for name in ExportedEvent.__struct_fields__})


def seqs(rows: Sequence[Recorded]) -> list[int]:
    return [row.seq for row in rows]


def thought(text: str) -> ThinkingDelta:
    return ThinkingDelta(call_id=CallId("c1"), text=text)


def called(*, system: str, tail: str) -> ModelCalled:
    return ModelCalled(
        call_id=CallId("c1"),
        purpose="turn",
        model="m",
        backend="b",
        iteration=1,
        request_sha256="0" * 64,
        context_seq=0,
        system_sha256=system,
        tools_sha256=None,
        options={},
        renderer="r/1",
        tail_sha256=tail,
    )


def failed_call(call_id: str) -> ModelCallFailed:
    return ModelCallFailed(
        call_id=CallId(call_id), kind="http", error="", partial_text="", will_retry=False
    )


def put_out(call_id: str, text: str, *masked: str) -> ToolOutputDelta:
    return ToolOutputDelta(call_id=CallId(call_id), text=text, masked=masked or UNSET)


def finished(call_id: str) -> ToolFinished:
    return ToolFinished(
        call_id=CallId(call_id), name="t", outcome="ok", output="***", masked=("A",)
    )


async def find(log: LogBackend, *parts: str, limit: int = 100, owner: Owner = ANNA) -> Page:
    return await log.find(0, after=0, limit=limit, owner=owner, parts=parts)


async def prune_all(
    log: LogBackend,
    *,
    before: datetime = LATER,
    session_id: SessionId | None = None,
    dry_run: bool = False,
) -> Pruned:
    return await log.prune(
        0, after=0, limit=100, before=before, session_id=session_id, dry_run=dry_run
    )


class EventLogContract:
    """Inherit, and give ``open_logs``."""

    def open_logs(
        self, database: str
    ) -> AbstractAsyncContextManager[tuple[LogBackend, LogBackend]]:
        """Two ways to one log with one partition: two nodes, or twice the same one."""
        raise NotImplementedError

    @pytest.fixture
    async def logs(self, database: str) -> AsyncGenerator[tuple[LogBackend, LogBackend], None]:
        async with self.open_logs(database) as both:
            yield both

    async def test_what_was_appended_is_read_as_it_was(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())

        first = await log.append(batch(session_id, 0, created(), named("\u0000 ümlaut")))
        second = await log.append(batch(session_id, 2, named("b")))

        assert await joined(log.read(session_id)) == first + second
        assert await joined(other.read(session_id)) == first + second
        assert [row.wire for row in await joined(other.read(session_id))] == [
            row.wire for row in first + second
        ]
        assert [row.envelope.event for row in first] == [created(), named("\u0000 ümlaut")]
        assert [(row.position, row.seq) for row in first + second] == [(1, 1), (2, 2), (3, 3)]

    async def test_what_is_erased_is_gone_and_the_chain_still_holds(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created(), named("secret"), named("b")))

        await log.erase(session_id, {2: NO_NAME})
        await log.append(batch(session_id, 3, named("c")))

        for reader in (log, other):
            rows = await joined(reader.read(session_id))
            assert [row.data for row in rows if b"secret" in row.data] == []
            assert rows[1].salt is None
            assert list(verify_chain(rows)) == []
        page = await log.read_all(rows[0].partition, after=0, limit=10)
        assert [row.seq for row in page.rows] == [1, 2, 3, 4]
        assert b"secret" not in b"".join(row.data for row in page.rows)

    async def test_what_is_erased_elsewhere_is_not_read_from_memory(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created(), named("secret"), named("b")))
        assert await other.wait_beyond(0, 2, timeout=DEADLINE)
        await other.append(batch(session_id, 3, named("secret too")))
        assert await log.wait_beyond(0, 3, timeout=DEADLINE)

        await log.erase(session_id, {2: NO_NAME, 4: NO_NAME})

        assert not tells_secret(await joined(other.read(session_id)))
        assert not tells_secret(await whole_partition(other))
        assert not tells_secret(await watched(other, session_id, after=0, until=4))

    @pytest.mark.parametrize("limit", [2, 9], ids=["in the middle", "up to the head"])
    async def test_who_looks_at_the_whole_log_reads_nothing_that_was_erased(
        self, logs: tuple[LogBackend, LogBackend], limit: int
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created(), named("secret"), named("b")))
        assert await other.wait_beyond(0, 2, timeout=DEADLINE)
        await log.erase(session_id, {2: NO_NAME})

        page = await other.read_all(0, after=0, limit=limit)

        assert page.rows[1].data == NO_NAME
        assert not tells_secret(await watched(other, session_id, after=0, until=3))

    async def test_a_watcher_that_lags_is_not_shown_what_was_erased_meanwhile(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created()))
        async with aclosing(other.watch(session_id, after=0)) as live, asyncio.timeout(DEADLINE):
            seen = await anext(live)
            await log.append(batch(session_id, 1, named("secret"), named("b")))
            assert await other.wait_beyond(0, 2, timeout=DEADLINE)
            await log.erase(session_id, {2: NO_NAME})
            await joined(other.read(session_id))
            while len(seen) < 3:
                seen += await anext(live)

        assert [row.seq for row in seen] == [1, 2, 3]
        assert not tells_secret(seen)

    async def test_facts_are_found_by_what_they_say(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id, later = SessionId(new_id()), SessionId(new_id())
        said = (named('say "tea"\u0000'), delta("tea"), named("coffee"), named("Grüße"))
        rows = await log.append(batch(session_id, 0, created(), *said))
        await log.append(batch(later, 0, created(), named("tea")))

        page = await find(other, 'say \\"tea\\"', "Grüße")

        assert (page.rows, page.reached, page.head) == ((rows[1], rows[4]), 7, 7)
        assert (await find(other, "tea", limit=2)).reached == 2
        tea = [(row.session_id, row.seq) for row in (await find(other, "tea")).rows]
        assert tea == [(session_id, 2), (later, 2)]
        assert (await find(other, "tea", owner=Owner("nobody"))).rows == ()
        assert (await find(other)).rows == ()

    async def test_facts_that_have_to_do_with_erasing_are_found_whatever_they_say(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        told = ContentErased(session_id=session_id, events=1, why="memory", seqs=(2,))
        await log.append(batch(session_id, 0, created(), named("tea"), delta("tea"), told))
        await log.erase(session_id, {2: NO_NAME, 3: pruned("c")})

        found = (await find(other, "coffee")).rows

        assert [(row.seq, row.salt is None) for row in found] == [(2, True), (4, False)]
        assert (await find(other, owner=Owner("nobody"))).rows == ()

    async def test_forks_and_the_sessions_of_an_owner_are_found(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        origin, fork, deeper = (SessionId(new_id()) for _ in range(3))
        await log.append(batch(origin, 0, created(), named("a")))
        await log.append(batch(fork, 2, forked(origin, 2)))
        await log.append(batch(deeper, 2, forked(fork, 2)))

        assert await other.forks_of(origin) == (fork,)
        assert await other.forks_of(fork) == (deeper,)
        assert await other.forks_of(deeper) == ()
        assert await other.sessions_of(ANNA) == (origin, fork, deeper)
        assert await other.sessions_of(Owner("nobody")) == ()

    async def test_it_knows_which_kept_texts_other_sessions_refer_to(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        one, another = SessionId(new_id()), SessionId(new_id())
        a, b, c = ("a" * 64, "b" * 64, "c" * 64)
        await log.append(batch(one, 0, created(), called(system=a, tail=b)))
        await log.append(batch(another, 0, created(), called(system=c, tail=b)))

        assert await other.texts_in_use([a, b, c], besides=[one]) == {b, c}
        assert await other.texts_in_use([a], besides=[another]) == {a}
        assert await other.texts_in_use([a], besides=[one, another]) == frozenset()
        assert await other.texts_in_use([], besides=[another]) == frozenset()

    async def test_a_pruned_delta_keeps_its_place_and_loses_its_text(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        ended, underway = SessionId(new_id()), SessionId(new_id())
        said = (delta("some secret"), thought("secret \u0000"), failed_call("c1"), named("b"))
        before = await log.append(batch(ended, 0, created(), *said))
        running = (delta("a secret"), put_out("call_2", "a secret"))
        await log.append(batch(underway, 0, created(), *running))
        assert tells_secret(await joined(other.read(ended)))

        tried = await prune_all(log, dry_run=True)
        done = await prune_all(log)
        again = await prune_all(log)

        bytes_ = len(before[1].data) + len(before[2].data)
        assert tried == done == Pruned(reached=8, head=8, deltas=2, bytes=bytes_)
        assert again == Pruned(reached=8, head=8, deltas=0, bytes=0)
        for reader in (log, other):
            rows = await joined(reader.read(ended))
            assert [row.data for row in rows[1:3]] == [b'{"call_id":"c1","pruned":true}'] * 2
            assert [row.wire for row in rows if row.seq not in (2, 3)] == [
                row.wire for row in before if row.seq not in (2, 3)
            ]
            assert list(verify_chain(rows)) == []
            assert tells_secret(await joined(reader.read(underway)))

    async def test_the_output_of_a_tool_that_has_ended_is_pruned(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        said = (put_out("call_1", "a secret"), put_out("call_1", "***", 'A "KEY"', "B"))
        await log.append(batch(session_id, 0, created(), *said, finished("call_1")))

        assert (await prune_all(log)).deltas == 2

        rows = await joined(other.read(session_id))
        assert [row.data for row in rows[1:3]] == [b'{"call_id":"call_1","pruned":true}'] * 2
        assert list(verify_chain(rows)) == []

    async def test_only_old_deltas_of_the_session_asked_for_are_pruned(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, _ = logs
        one, another = SessionId(new_id()), SessionId(new_id())
        for session_id in (one, another):
            await log.append(batch(session_id, 0, created(), delta("secret"), failed_call("c1")))

        assert (await prune_all(log, before=AT)).deltas == 0
        assert (await prune_all(log, session_id=one)).deltas == 1

        assert not tells_secret(await joined(log.read(one)))
        assert tells_secret(await joined(log.read(another)))
        assert (await log.prune(0, after=2, limit=3, before=LATER)).deltas == 1

    async def test_a_read_keeps_to_its_bounds(self, logs: tuple[LogBackend, LogBackend]) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        events = [created(), *(named(str(n)) for n in range(9))]
        rows = await log.append(batch(session_id, 0, *events))

        assert await joined(other.read(session_id, after=3, until=6)) == rows[3:6]
        assert await joined(other.read(session_id, after=8, until=99)) == rows[8:]
        assert await joined(other.read(session_id, after=10)) == ()
        assert await joined(other.read(session_id, after=99)) == ()
        assert await joined(other.read(session_id, until=0)) == ()

    async def test_an_unknown_session_is_empty(self, logs: tuple[LogBackend, LogBackend]) -> None:
        log, _ = logs

        for session_id in (SessionId(new_id()), SessionId("no uuid")):
            assert await log.head(session_id) == 0
            assert await log.owner_of(session_id) is None
            assert await joined(log.read(session_id)) == ()
            assert await log.find_receipt(session_id, MessageId("m")) is None

    async def test_a_session_has_a_head_and_an_owner(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created(), named("a")))

        assert [await one.head(session_id) for one in logs] == [2, 2]
        assert [await one.owner_of(session_id) for one in logs] == [ANNA, ANNA]
        await other.append(batch(session_id, 2, named("b")))
        assert [await one.head(session_id) for one in logs] == [3, 3]

    async def test_an_append_at_another_seq_is_refused(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        rows = await log.append(batch(session_id, 0, created(), named("a")))

        for one in logs:
            for expected in (0, 1, 3):
                with pytest.raises(ConcurrentAppend):
                    await one.append(batch(session_id, expected, named("b")))
            with pytest.raises(ConcurrentAppend):
                await one.append(batch(SessionId(new_id()), 1, named("b")))

        assert await joined(other.read(session_id)) == rows

    async def test_the_same_append_again_gives_the_first_answer(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        begin = batch(session_id, 0, created(), named("a"))
        go_on = batch(session_id, 2, named("b"))

        first = await log.append(begin)
        assert await other.append(begin) == first
        second = await other.append(go_on)
        assert await log.append(begin) == first
        assert await log.append(go_on) == second

        assert await joined(log.read(session_id)) == first + second

    async def test_one_of_fifty_wins_each_seq(self, logs: tuple[LogBackend, LogBackend]) -> None:
        session_id = SessionId(new_id())
        await logs[0].append(batch(session_id, 0, created()))

        for expected in range(1, 6):
            ends = await asyncio.gather(
                *(
                    logs[n % 2].append(batch(session_id, expected, named(str(n))))
                    for n in range(50)
                ),
                return_exceptions=True,
            )
            won = [end for end in ends if not isinstance(end, BaseException)]
            lost = [type(end) for end in ends if isinstance(end, BaseException)]
            assert [row.seq for rows in won for row in rows] == [expected + 1]
            assert lost == [ConcurrentAppend] * 49

    async def test_nothing_is_lost_when_many_append_to_many_sessions(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        sessions = [SessionId(new_id()) for _ in range(10)]
        for session_id in sessions:
            await logs[0].append(batch(session_id, 0, created()))

        rows = await asyncio.gather(
            *(
                append_on_top(logs[n % 2], session_id, named(str(n)))
                for session_id in sessions
                for n in range(6)
            )
        )

        assert sorted(row.position for row in rows) == list(range(11, 71))
        for session_id in sessions:
            stored = await joined(logs[0].read(session_id))
            assert seqs(stored) == list(range(1, 8))
            assert list(verify_chain(stored)) == []
        assert [row.position for row in await whole_partition(logs[1])] == list(range(1, 71))

    async def test_a_watcher_sees_every_event_once_and_in_order(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id, noise = SessionId(new_id()), SessionId(new_id())
        await log.append(batch(session_id, 0, created()))
        await log.append(batch(noise, 0, created()))

        async def write(one: LogBackend, into: SessionId) -> None:
            for n in range(60):
                await append_on_top(one, into, named(str(n)))

        async def watch_later(one: LogBackend, start: int) -> Rows:
            await one.wait_beyond(0, start, timeout=DEADLINE)
            return await watched(one, session_id, after=0, until=121)

        async with asyncio.TaskGroup() as tasks:
            watchers = [
                tasks.create_task(watch_later(one, start)) for one in logs for start in (0, 40, 90)
            ]
            for one in logs:
                tasks.create_task(write(one, session_id))
                tasks.create_task(write(one, noise))

        stored = await joined(other.read(session_id))
        assert seqs(stored) == list(range(1, 122))
        assert [watcher.result() for watcher in watchers] == [stored] * 6

    async def test_a_watcher_goes_on_where_it_says(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        rows = await log.append(batch(session_id, 0, created(), named("a"), named("b")))

        async with aclosing(other.watch(session_id, after=2)) as live, asyncio.timeout(DEADLINE):
            assert await anext(live) == rows[2:]
            more = await log.append(batch(session_id, 3, named("c")))
            assert await anext(live) == more
            more = await other.append(batch(session_id, 4, named("d"), delta("x")))
            assert await anext(live) == more

    async def test_a_slow_watcher_misses_nothing(self, logs: tuple[LogBackend, LogBackend]) -> None:
        log, _ = logs
        session_id = SessionId(new_id())
        rows = await log.append(batch(session_id, 0, created()))

        seen: list[Recorded] = []
        async with aclosing(log.watch(session_id, after=0)) as live, asyncio.timeout(DEADLINE):
            seen.extend(await anext(live))
            for n in range(30):
                events = [named(f"{n} {m}") for m in range(100)]
                rows += await log.append(batch(session_id, len(rows), *events))
            while len(seen) < len(rows):
                seen.extend(await anext(live))

        assert tuple(seen) == rows

    async def test_many_watchers_of_a_session_share_its_rows(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, _ = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created()))

        async with asyncio.TaskGroup() as tasks:
            watchers = [
                tasks.create_task(watched(log, session_id, after=1, until=2)) for _ in range(200)
            ]
            await asyncio.sleep(0)
            tasks.create_task(append_on_top(log, session_id, named("a")))

        assert len({watcher.result() for watcher in watchers}) == 1

    async def test_another_nodes_commit_wakes_who_waits(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        assert not await other.wait_beyond(0, 0, timeout=0.01)

        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(other.wait_beyond(0, 0, timeout=DEADLINE))
            await log.append(batch(SessionId(new_id()), 0, created()))

        assert waiting.result()
        assert await other.wait_beyond(0, 0, timeout=0)

    async def test_a_partition_reads_without_its_deltas(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        events = [created(), *(delta(str(n)) for n in range(20)), named("a"), delta("z")]
        rows = await log.append(batch(session_id, 0, *events))

        for one in (log, other):
            assert await whole_partition(one) == rows
            assert await whole_partition(one, deltas=False) == (rows[0], rows[21])
            assert await joined(one.read(session_id, types=FACTS)) == (rows[0], rows[21])
            assert await joined(one.read(session_id, after=1, until=21, types=FACTS)) == ()

    async def test_a_session_reads_by_the_types_of_its_events(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        events = [created(), *(named(str(n)) for n in range(300)), delta("z"), named("a")]
        rows = await log.append(batch(session_id, 0, *events))

        names = Types(only=frozenset({SessionRenamed.TYPE}))
        for one in (log, other):
            assert await joined(one.read(session_id, types=names)) == (*rows[1:301], rows[302])
            assert await joined(one.read(session_id, after=301, types=names)) == (rows[302],)
            assert await joined(one.read(session_id, until=1, types=names)) == ()

    async def test_a_selection_begins_at_either_end(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        origin, fork = SessionId(new_id()), SessionId(new_id())
        deltas = [delta(str(n)) for n in range(4)]
        rows = await log.append(batch(origin, 0, created(), *deltas, named("a"), *deltas))
        rows = rows[:6] + await other.append(
            batch(fork, 6, forked(origin, 6), *deltas, named("b"), *deltas, named("c"))
        )

        async def seqs(one: LogBackend, until: int = 99, **fields: Any) -> list[int]:
            found = await joined(one.select(fork, Selection(**fields), until=until))
            assert found == tuple(rows[row.seq - 1] for row in found)
            return [row.seq for row in found]

        only_deltas = Types(only=frozenset(DELTA_TYPES))
        for one in (log, other):
            assert await seqs(one) == list(range(1, 18))
            assert await seqs(one, until=3, after=1) == [2, 3]
            assert await seqs(one, limit=3) == [1, 2, 3]
            assert await seqs(one, limit=3, types=FACTS) == [1, 6, 7]
            assert await seqs(one, before=99, limit=3) == [15, 16, 17]
            assert await seqs(one, before=99, limit=3, types=FACTS) == [7, 12, 17]
            assert await seqs(one, before=12, limit=3, types=FACTS) == [1, 6, 7]
            assert await seqs(one, before=99, limit=9, types=FACTS) == [1, 6, 7, 12, 17]
            assert await seqs(one, before=9, limit=3, types=only_deltas) == [4, 5, 8]
            assert await seqs(one, after=6, before=13, limit=9, types=FACTS) == [7, 12]
            assert await seqs(one, after=6, before=13) == list(range(7, 13))
            assert await seqs(one, until=16, before=99, limit=1) == [16]
            assert await seqs(one, before=99, limit=1, types=Types(only=frozenset())) == []
            assert await seqs(one, before=0, limit=1) == []
            assert await seqs(one, after=5, before=3, limit=1) == []

    async def test_an_empty_page_says_where_the_partition_ends(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        await log.append(batch(SessionId(new_id()), 0, created(), named("a")))

        page = await other.read_all(0, after=2, limit=10)
        assert (page.rows, page.reached, page.head) == ((), 2, 2)

    async def test_a_receipt_is_found_by_the_clients_id(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id, stranger = SessionId(new_id()), SessionId(new_id())
        receipt = UserMessageReceived(message_id=MessageId("m:1"), content="hello")
        await log.append(batch(session_id, 0, created(), receipt))
        await log.append(batch(stranger, 0, created()))

        for one in (log, other):
            assert await one.find_receipt(session_id, MessageId("m:1")) == (2, receipt)
            assert await one.find_receipt(session_id, MessageId("m:2")) is None
            assert await one.find_receipt(stranger, MessageId("m:1")) is None

    async def test_an_event_above_the_limit_is_refused_and_nothing_stored(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, _ = logs
        session_id = SessionId(new_id())
        rows = await log.append(batch(session_id, 0, created()))
        room = MAX_ENVELOPE_BYTES - len(rows[0].wire) + len(rows[0].data)
        room -= len("session_renamed") - len("session_created") + len('{"name":"","by":"user"}')

        with pytest.raises(EventTooLarge):
            await log.append(batch(session_id, 1, named("a"), named("x" * (room + 1))))
        assert await log.head(session_id) == 1
        largest = await log.append(batch(session_id, 1, named("x" * room)))

        assert len(largest[0].wire) == MAX_ENVELOPE_BYTES
        assert await joined(log.read(session_id)) == rows + largest

    async def test_an_id_that_would_come_back_changed_is_refused(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, _ = logs

        with pytest.raises(BadInput):
            await log.append(batch(SessionId(new_id().upper() + "A"), 0, created()))
        with pytest.raises(BadInput):
            await log.append(batch(SessionId("s1"), 0, created()))

    async def test_a_session_is_a_chain_of_hashes(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        session_id = SessionId(new_id())
        await log.append(batch(session_id, 0, created(), named("a")))
        await other.append(batch(session_id, 2, delta("b")))
        await log.append(batch(session_id, 3, named("c"), SessionPinned(pinned=True)))

        rows = await joined(other.read(session_id))

        assert list(verify_chain(rows)) == []
        assert len({row.salt for row in rows}) == 5

    async def test_a_fork_reads_its_origin_first(self, logs: tuple[LogBackend, LogBackend]) -> None:
        log, other = logs
        origin, fork, fork_of_fork = (SessionId(new_id()) for _ in range(3))
        receipt = UserMessageReceived(message_id=MessageId("m"), content="hello")
        rows = await log.append(batch(origin, 0, created(), receipt, named("a"), named("b")))

        own = await other.append(batch(fork, 3, forked(origin, 3), named("c")))
        own += await log.append(batch(fork, 5, named("d")))
        last = await log.append(batch(fork_of_fork, 4, forked(fork, 4)))

        for one in (log, other):
            assert await joined(one.read(fork)) == rows[:3] + own
            assert await joined(one.read(fork, after=2, until=4)) == (rows[2], own[0])
            assert await joined(one.read(fork_of_fork)) == rows[:3] + own[:1] + last
            assert await joined(one.read(origin)) == rows
            assert await one.head(fork) == 6
            assert await one.find_receipt(fork_of_fork, MessageId("m")) == (2, receipt)
            assert await watched(one, fork_of_fork, after=1, until=5) == (
                *rows[1:3],
                own[0],
                *last,
            )
        assert list(verify_chain(await joined(log.read(fork_of_fork)))) == []
        with pytest.raises(ConcurrentAppend):
            await log.append(batch(fork, 3, forked(origin, 3)))
        with pytest.raises(NotFound):
            await log.append(batch(SessionId(new_id()), 9, forked(origin, 9)))

    async def test_a_fork_may_begin_within_what_its_origin_shares_with_another(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        root, fork, early, empty = (SessionId(new_id()) for _ in range(4))
        rows = await log.append(batch(root, 0, created(), named("a"), named("b")))
        own = await log.append(batch(fork, 3, forked(root, 3)))

        first = await other.append(batch(early, 2, forked(fork, 2), named("c")))
        alone = await other.append(batch(empty, 0, forked(fork, 0)))

        for one in (log, other):
            assert await joined(one.read(early)) == rows[:2] + first
            assert await joined(one.read(empty)) == alone
            assert await joined(one.read(fork)) == rows + own
        assert list(verify_chain(await joined(log.read(early)))) == []
        assert [row.position for row in first + alone] == [5, 6, 7]

    async def test_the_same_fork_again_gives_the_first_answer(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        origin, fork = SessionId(new_id()), SessionId(new_id())
        await log.append(batch(origin, 0, created(), named("a")))
        begin = batch(fork, 2, forked(origin, 2), named("b"))

        first = await log.append(begin)

        assert await other.append(begin) == first
        assert await log.append(begin) == first
        assert await log.head(fork) == 4

    async def test_what_is_erased_in_the_origin_is_erased_in_its_forks_only_there(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        origin, fork = SessionId(new_id()), SessionId(new_id())
        await log.append(batch(origin, 0, created(), named("secret")))
        await log.append(batch(fork, 2, forked(origin, 2), named("secret too")))

        await log.erase(fork, {2: b'{"name":"x","by":"user"}', 4: NO_NAME})
        assert [row.data for row in await joined(other.read(origin))][1] == (
            b'{"name":"secret","by":"user"}'
        )
        await log.erase(origin, {2: NO_NAME})

        for session_id in (origin, fork):
            rows = await joined(log.read(session_id))
            assert [row.data for row in rows if b"secret" in row.data] == []
            assert list(verify_chain(rows)) == []

    async def test_the_registry_says_who_is_there_and_where_they_end(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        origin, fork = sorted(SessionId(new_id()) for _ in range(2))
        rows = await log.append(batch(origin, 0, created(), named("a"), named("b")))
        own = await log.append(batch(fork, 2, forked(origin, 2)))

        first = SessionHead(
            session_id=origin,
            owner=ANNA,
            forked_from=None,
            base_hash=bytes(32),
            seq=3,
            hash=rows[-1].hash,
        )
        second = SessionHead(
            session_id=fork,
            owner=ANNA,
            forked_from=Origin(session_id=origin, seq=2),
            base_hash=rows[1].hash,
            seq=3,
            hash=own[-1].hash,
        )
        for one in (log, other):
            assert tuple(await one.sessions()) == (first, second)
            assert tuple(await one.sessions([fork, SessionId("no uuid")])) == (second,)
            assert tuple(await one.sessions([])) == ()
        apart = SessionId(new_id())
        await log.append(batch(apart, 0, forked(origin, 0)))
        assert [head.forked_from for head in await other.sessions([apart])] == [None]

    async def test_what_was_elsewhere_is_restored_as_it_was(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        elsewhere = InMemoryEventLog()
        here, origin, fork = (SessionId(new_id()) for _ in range(3))
        await elsewhere.append(batch(origin, 0, created(), named("\u0000 ümlaut"), delta("x")))
        await elsewhere.append(batch(fork, 2, forked(origin, 2), named("c")))
        await elsewhere.erase(origin, {3: b'{"call_id":"c1","pruned":true}'})
        moved = await moved_from(elsewhere, origin, fork)
        await log.append(batch(here, 0, created()))

        assert await log.restore(*moved) == 5

        for one in logs:
            for session_id in (origin, fork):
                before = await joined(elsewhere.read(session_id))
                after = await joined(one.read(session_id))
                assert [(row.wire, row.salt, row.digest, row.hash, row.owner) for row in after] == [
                    (row.wire, row.salt, row.digest, row.hash, row.owner) for row in before
                ]
            assert [row.position for row in await whole_partition(one)] == [1, 2, 3, 4, 5, 6]
            assert await one.head(fork) == 4
        await append_on_top(other, fork, named("d"))
        assert list(verify_chain(await joined(log.read(fork)))) == []

    async def test_a_restore_is_all_or_nothing(self, logs: tuple[LogBackend, LogBackend]) -> None:
        log, other = logs
        elsewhere = InMemoryEventLog()
        new, there = (SessionId(new_id()) for _ in range(2))
        await elsewhere.append(batch(new, 0, created(), named("a")))
        await elsewhere.append(batch(there, 0, created(), named("a")))
        await log.append(batch(there, 0, created()))

        with pytest.raises(AlreadyThere, match=there):
            await log.restore(*await moved_from(elsewhere, new, there))
        sessions, events = await moved_from(elsewhere, new)

        async def broken() -> AsyncGenerator[Sequence[ExportedEvent], None]:
            async for some in events:
                yield some
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await log.restore(sessions, broken())

        for one in (log, other):
            assert [head.session_id for head in await one.sessions()] == [there]
            assert await one.head(new) == 0
            assert (await one.read_all(0, after=0, limit=10)).head == 1
        assert await log.restore(*await moved_from(elsewhere, new)) == 2

    async def test_others_append_while_sessions_are_restored(
        self, logs: tuple[LogBackend, LogBackend]
    ) -> None:
        log, other = logs
        elsewhere = InMemoryEventLog()
        moving, busy = [SessionId(new_id()) for _ in range(5)], SessionId(new_id())
        for session_id in moving:
            await elsewhere.append(
                batch(session_id, 0, created(), *(named("a") for _ in range(30)))
            )
        await log.append(batch(busy, 0, created()))

        async with asyncio.TaskGroup() as tasks:
            for session_id in moving:
                tasks.create_task(log.restore(*await moved_from(elsewhere, session_id)))
                tasks.create_task(append_on_top(other, busy, named("b")))
                tasks.create_task(append_on_top(log, busy, named("c")))

        rows = await whole_partition(log, limit=50)
        assert [row.position for row in rows] == list(range(1, 1 + 11 + 5 * 31))
        for session_id in (*moving, busy):
            assert list(verify_chain(await joined(log.read(session_id)))) == []
