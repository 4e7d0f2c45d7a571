"""Read models built anew, or in a new version, beside those that serve."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi import failpoints
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.catalogue import FoundSessions, session_now, unfinished_sessions
from navi.application.reading.list_sessions import list_sessions
from navi.application.reading.read_session import read_session, replay_session
from navi.domain.session.session import Session
from navi.domain.vocabulary.events import SessionDeleted, SessionPinned
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.failpoints import FailpointRaised
from navi.ports.read_models import Build
from navi.projections.sessions import Sessions
from tests.application.sample import (
    COMPLETED,
    CREATED,
    POISON,
    STARTED,
    OldSessions,
    SampleProjection,
    append,
    said,
    session,
)

A, B, C, D = (session(number) for number in range(1, 5))
SESSIONS = [session(number) for number in range(1, 21)]
OLD, NEW = SampleProjection(), SampleProjection(prefix="new ", poison="nothing")
SOON = 60.0  # seconds: a deadline, not a wait


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog()


@pytest.fixture
def read_models() -> InMemoryReadModels:
    return InMemoryReadModels()


def projector(
    log: InMemoryEventLog,
    read_models: InMemoryReadModels,
    projection: SampleProjection | Sessions,
    *,
    batch_events: int = 500,
    unused_seconds: float = 60,
) -> Projector:
    return Projector(
        log,
        read_models,
        [projection],
        SystemClock(),
        batch_events=batch_events,
        unused_seconds=unused_seconds,
    )


async def test_a_rebuild_goes_on_beside_what_serves_and_is_then_switched(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    await append(log, A, CREATED, said("one"), said(POISON))
    serving = projector(log, read_models, OLD)
    await serving.caught_up()

    build = await read_models.rebuild("sample", 1)
    async with stopped_before_commit():
        with pytest.raises(FailpointRaised):
            await projector(log, read_models, NEW).build(NEW, build)
    await append(log, A, said("two"))
    await serving.caught_up()
    meanwhile = await rows_of(read_models, A)
    parked = await read_models.parked("sample", 1)
    await projector(log, read_models, NEW).build(NEW, build)

    assert meanwhile == [b'"one"', b'"two"']
    assert [event.seq for event in parked] == [3]
    assert await rows_of(read_models, A) == [b'"new one"', b'"new poison"', b'"new two"']
    assert await read_models.parked("sample", 1) == ()
    assert await read_models.positions("sample", 1) == {0: 4}


async def test_a_rebuild_that_was_broken_off_goes_on_where_it_was(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    for session_id in SESSIONS:
        await append(log, session_id, CREATED, said("one"))
    await projector(log, read_models, OLD).caught_up()
    build = await read_models.rebuild("sample", 1)

    async with stopped_before_commit(hit=3):
        with pytest.raises(FailpointRaised):
            await projector(log, read_models, NEW, batch_events=10).build(NEW, build)
    broken_off = await read_models.builds(["sample"])
    again = await read_models.rebuild("sample", 1)
    await projector(log, read_models, NEW).build(NEW, again)

    assert [(b.state, b.positions) for b in broken_off] == [
        ("live", {0: 40}),
        ("building", {0: 20}),
    ]
    assert again.number == build.number
    for session_id in SESSIONS:
        assert await rows_of(read_models, session_id) == [b'"new one"']


async def test_a_server_builds_what_is_asked_for_while_its_log_grows(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    for session_id in SESSIONS:
        await append(log, session_id, CREATED)
    async with (
        following(projector(log, read_models, OLD, batch_events=3)),
        following(projector(log, read_models, OLD, batch_events=5)),
    ):
        await is_live(read_models, 1)
        build = await read_models.rebuild("sample", 1)
        nth = 0
        async with asyncio.timeout(SOON):
            while await live(read_models) != build.number:
                session_id = SESSIONS[nth % len(SESSIONS)]
                await append(log, session_id, said(f"{nth}"))
                read = await read_session(log, read_models, OLD, session_id)
                until = await log.head(session_id)
                assert read == await replay_session(log, OLD, session_id, until=until)
                assert read.rows[-1] == f"{nth}"
                nth += 1
                await asyncio.sleep(0.001)
        await append(log, A, said("last"))
        head = (await log.read_all(0, after=0, limit=1)).head
        async with asyncio.timeout(SOON):
            # Both follow the new one, and throw the old one away.
            while [b.positions for b in await builds(read_models)] != [{0: head}]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    assert nth > len(SESSIONS)
    for session_id in SESSIONS:
        stored = await read_models.load("sample", 1, session_id)
        assert stored is not None
        whole = await replay_session(log, OLD, session_id, until=await log.head(session_id))
        assert (stored.seq, tuple(OLD.decode_row(row) for _, row in stored.rows)) == (
            whole.seq,
            whole.rows,
        )


async def test_two_processes_that_build_the_same_share_the_work(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    for session_id in SESSIONS:
        await append(log, session_id, CREATED, said("one"))
    await projector(log, read_models, OLD).caught_up()
    build = await read_models.rebuild("sample", 1)

    async with asyncio.timeout(SOON):
        await asyncio.gather(
            *(projector(log, read_models, NEW, batch_events=3).build(NEW, build) for _ in "ab")
        )

    assert await live(read_models) == build.number
    for session_id in SESSIONS:
        assert await rows_of(read_models, session_id) == [b'"new one"']


async def test_versions_stand_side_by_side_until_nobody_runs_the_older_one(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    old, new = SampleProjection(version=1), SampleProjection(version=2, prefix="new ")
    await append(log, A, CREATED, said("one"))
    async with following(projector(log, read_models, old)):
        await is_live(read_models, 1)
        async with following(projector(log, read_models, new)):
            await is_live(read_models, 2)
            await append(log, A, said("two"))
            for projection, rows in ((old, ("one", "two")), (new, ("new one", "new two"))):
                read = await read_session(log, read_models, projection, A)
                assert read.rows == rows
            async with asyncio.timeout(SOON):
                while {b.state: b.positions for b in await builds(read_models)} != {  # noqa: ASYNC110 - nobody tells
                    "live": {0: 3}
                }:
                    await asyncio.sleep(0.01)
            assert [b.state for b in await builds(read_models)] == ["live", "live"]

    async with following(projector(log, read_models, new, unused_seconds=0)):
        async with asyncio.timeout(SOON):
            while len(await builds(read_models)) > 1:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    assert [b.version for b in await builds(read_models)] == [2]


@pytest.fixture
async def half_built(log: InMemoryEventLog, read_models: InMemoryReadModels) -> InMemoryEventLog:
    """A log whose list was kept by an older navi, and is built by this one as far as a few events."""
    await append(log, A, CREATED, said("a"), STARTED, COMPLETED)
    await append(log, B, CREATED, said("b"), STARTED)
    await append(log, C, CREATED, said("c"), STARTED)
    old = projector(log, read_models, OldSessions())
    await old.caught_up()
    await append(log, C, COMPLETED, said("c again"), SessionPinned(pinned=True))
    await append(log, B, SessionDeleted())
    await append(log, D, CREATED, said("d"), STARTED)
    build = await read_models.open_build("sessions", Sessions.version)
    async with stopped_before_commit(hit=2):
        with pytest.raises(FailpointRaised):
            await projector(log, read_models, Sessions(), batch_events=6).build(Sessions(), build)
    assert await read_models.positions("sessions", Sessions.version) == {0: 6}
    return log


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_the_list_is_whole_while_this_versions_own_is_built(
    half_built: InMemoryEventLog, read_models: InMemoryReadModels, limit: int | None
) -> None:
    async def listed() -> list[Session]:
        sessions: list[Session] = []
        after = None
        while True:
            page = await list_sessions(
                half_built, read_models, owner=LOCAL_OWNER, after=after, limit=limit
            )
            sessions.extend(page.sessions)
            after = page.next
            if after is None:
                return sessions

    meanwhile = await listed()
    await projector(half_built, read_models, Sessions()).caught_up()

    assert [one.id for one in meanwhile] == [C, A, D]
    assert meanwhile == await listed()


async def test_unfinished_sessions_are_found_while_this_versions_own_list_is_built(
    half_built: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    meanwhile = await unfinished_sessions(half_built, read_models)
    read = {id_: await session_now(half_built, read_models, id_) for id_ in meanwhile.unread}
    await projector(half_built, read_models, Sessions()).caught_up()
    afterwards = await unfinished_sessions(half_built, read_models)

    unfinished = {id_: session for id_, session in read.items() if session.unfinished}
    assert unfinished.keys() == {A, C, D}  # what was said to A was never delivered
    assert (meanwhile.sessions, afterwards) == ({}, FoundSessions(sessions=unfinished, unread=()))


async def test_without_any_complete_list_the_log_gives_what_is_missing(
    log: InMemoryEventLog, read_models: InMemoryReadModels
) -> None:
    await append(log, A, CREATED, said("a"))
    await append(log, B, CREATED, said("b"))

    page = await list_sessions(log, read_models, owner=LOCAL_OWNER)

    assert [one.id for one in page.sessions] == [B, A]


async def rows_of(read_models: InMemoryReadModels, session_id: SessionId) -> list[bytes]:
    stored = await read_models.load("sample", 1, session_id)
    assert stored is not None
    return [row for _, row in stored.rows]


async def builds(read_models: InMemoryReadModels) -> list[Build]:
    return list(await read_models.builds(["sample"]))


async def live(read_models: InMemoryReadModels) -> int | None:
    return next((b.number for b in await builds(read_models) if b.state == "live"), None)


async def is_live(read_models: InMemoryReadModels, version: int) -> None:
    async with asyncio.timeout(SOON):
        while ("live", version) not in {(b.state, b.version) for b in await builds(read_models)}:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


@asynccontextmanager
async def stopped_before_commit(*, hit: int = 1) -> AsyncGenerator[None, None]:
    """A batch fails: the first, or another one."""
    failpoints.arm(failpoints.parse(f"projection.before_commit@{hit}=raise"))
    try:
        yield
    finally:
        failpoints.arm(())


@asynccontextmanager
async def following(follower: Projector) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=SOON)
