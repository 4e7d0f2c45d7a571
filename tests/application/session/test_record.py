"""A session's record reads the log for what others appended, and for nothing else."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from msgspec import UNSET, Raw

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import RandomIds, SystemClock
from navi.application.session.record import REFRESH_SECONDS, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import CreateSession, PinSession, RenameSession
from navi.domain.vocabulary.errors import LogUnavailable, RuleBroken
from navi.domain.vocabulary.events import (
    AgentEvent,
    CompressionUndone,
    ContentErased,
    SessionPinned,
    SubagentStarted,
    UnknownEvent,
)
from navi.domain.vocabulary.ids import (
    LOCAL_OWNER,
    CallId,
    EventId,
    NodeId,
    Owner,
    SessionId,
    SubagentId,
    TurnId,
)
from navi.ports.event_log import ALL_TYPES, Append, NewEvent, Recorded, Selection, Types
from tests.application.sample import CREATED, DELTA, NOON, STARTED, said, uuid

SESSION = SessionId("0199b0a0-0000-7000-8000-000000000001")


class CountedLog(InMemoryEventLog):
    """Counts how often a session is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        self.reads += 1
        return super().read(session_id, after=after, until=until, types=types)


class CountedRows(InMemoryEventLog):
    """Counts the events that a reader is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async for rows in super().read(session_id, after=after, until=until, types=types):
            self.given += len(rows)
            yield rows

    async def select(
        self, session_id: SessionId, selection: Selection, *, until: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        before = self.given  # what is looked through is not given
        async for rows in super().select(session_id, selection, until=until):
            self.given = before = before + len(rows)
            yield rows


def records(log: InMemoryEventLog, node: str) -> Records:
    models = InMemoryReadModels()
    return Records(log, models, SystemClock(), RandomIds(), NodeId(node), Secrets())


async def append(log: CountedLog, event: AgentEvent) -> None:
    """Append a second event without any record."""
    new = NewEvent(
        id=EventId("0199b0a0-0000-7000-8000-0000000000aa"),
        at=SystemClock().now(),
        turn_id=None,
        subagent_id=None,
        event=event,
    )
    await log.append(Append(session_id=SESSION, owner=LOCAL_OWNER, expected=1, events=(new,)))


async def test_what_this_process_appended_is_not_read_again() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    before = log.reads

    await record.refresh(until=record.seq)

    assert log.reads == before


async def test_the_log_knows_from_the_first_event_whose_a_session_is() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)

    await record.execute(CreateSession(profile_id="assistant", owner=Owner("somebody")))
    await record.execute(RenameSession(name="theirs", by="user"))

    rows = [row async for batch in log.read(SESSION) for row in batch]
    assert [row.owner for row in rows] == ["somebody", "somebody"]
    assert await log.owner_of(SESSION) == "somebody"


async def test_what_another_process_appended_is_read() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    other = await records(log, "b").open(SESSION)
    await other.execute(RenameSession(name="theirs", by="user"))

    await record.refresh(until=other.seq)

    assert (record.seq, record.session.name) == (other.seq, "theirs")


class UnreadableLog(InMemoryEventLog):
    """A log that takes events in and cannot be read.

    Attributes:
        readable: to be cleared; reading then fails.
        refused: set once somebody could not read it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readable = True
        self.refused = asyncio.Event()

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        if not self.readable:
            self.refused.set()
            raise LogUnavailable("Postgres does not answer")
        return super().read(session_id, after=after, until=until, types=types)


async def test_nobody_waits_behind_what_reads_on_while_postgres_is_away() -> None:
    log = UnreadableLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    other = await records(log, "b").open(SESSION)
    await other.execute(RenameSession(name="theirs", by="user"))
    log.readable = False
    pinning = asyncio.create_task(record.execute(PinSession(pinned=True), retry=True))
    await log.refused.wait()

    async with asyncio.timeout(REFRESH_SECONDS / 2):
        with pytest.raises(LogUnavailable):
            await record.refresh()
    log.readable = True
    [pinned] = await pinning

    assert (pinned.seq, record.session.name, record.session.pinned) == (3, "theirs", True)
    await record.refresh()  # the lock is free again


async def test_what_a_newer_navi_wrote_can_be_read_here_and_not_gone_on_with() -> None:
    log = CountedLog()
    theirs = records(log, "a")
    record = await theirs.open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    ended = UnknownEvent(name="turn_completed", version=2, data=Raw(b'{"how": "well"}'))
    await append(log, ended)
    own = await records(log, "b").open(SESSION)

    with pytest.raises(RuleBroken, match="event 2 of the session is a turn_completed of version 2"):
        await own.execute(RenameSession(name="ours", by="user"))

    assert own.session.exists
    assert not own.session.unfinished
    assert await log.head(SESSION) == 2


async def test_the_buffers_of_a_session_that_begins_here_are_never_read() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    before = log.reads

    context, todo = await record.context(), await record.todo()
    await record.execute(RenameSession(name="other", by="user"))

    assert log.reads == before
    assert context.seq == todo.seq == record.seq == 2


async def test_for_the_context_of_a_new_subagent_only_what_is_of_its_turn_is_read() -> None:
    log, turn_id, subagent_id = CountedRows(), TurnId(uuid(7)), SubagentId(uuid(8))
    talk = [event for n in range(1000) for event in (said(str(n)), STARTED)]
    spawned = SubagentStarted(call_id=CallId(uuid(9)), profile_id="assistant", task="look")
    events = [CREATED, *talk, DELTA, spawned, said("more"), SessionPinned(pinned=True)]
    await log.append(
        Append(
            session_id=SESSION,
            owner=LOCAL_OWNER,
            expected=0,
            events=tuple(
                NewEvent(
                    id=EventId(uuid(10, number)),
                    at=NOON,
                    turn_id=turn_id if event in (STARTED, DELTA, spawned) else None,
                    subagent_id=subagent_id if event is spawned else None,
                    event=event,
                )
                for number, event in enumerate(events)
            ),
        )
    )
    record = await records(log, "a").open(SESSION)
    log.given = 0

    context = await record.context_of(subagent_id)

    assert [message.content for _, message in context.rows.visible()] == ["look"]
    assert log.given == 3  # the start of the turn, that of the subagent, and what was said since


@pytest.mark.parametrize(
    "event",
    [
        ContentErased(session_id=SESSION, events=1, why="session", seqs=UNSET),
        CompressionUndone(compression_seq=1),
    ],
)
async def test_what_makes_a_fold_good_no_more_while_it_is_opened_has_it_opened_anew(
    event: AgentEvent,
) -> None:
    log = CountedLog()
    creator = await records(log, "a").open(SESSION)
    await creator.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    talking = await records(log, "b").open(SESSION)
    planning = await records(log, "c").open(SESSION)
    await append(log, event)

    context, todo = await talking.context(), await planning.todo()

    assert context.seq == todo.seq == 2
