import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from navi import failpoints
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.read_session import read_session, replay_session
from navi.domain.errors import LogUnavailable
from navi.domain.events import Origin, SessionCreated, SessionDeleted
from navi.domain.ids import LOCAL_OWNER
from navi.failpoints import FailpointRaised
from navi.ports import Parked, ProjectionBatch
from tests.application.sample import (
    COMPLETED,
    CREATED,
    DELTA,
    POISON,
    STARTED,
    SampleProjection,
    append,
    compressed,
    said,
    session,
)

A, B, C = session(1), session(2), session(3)
SAMPLE = SampleProjection()
SOON = 10.0  # seconds: a deadline, not a wait


class ObservedReadModels(InMemoryReadModels):
    """Counts batches, and fails the first few where it is told to."""

    def __init__(self, *, failures: tuple[Exception, ...] = ()) -> None:
        super().__init__()
        self.batches = 0
        self._failures = list(failures)

    def begin(
        self, projection: str, version: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        self.batches += 1
        if self._failures:
            raise self._failures.pop(0)
        return super().begin(projection, version, partition)


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog()


@pytest.fixture
def read_models() -> ObservedReadModels:
    return ObservedReadModels()


@pytest.fixture
def projector(log: InMemoryEventLog, read_models: ObservedReadModels) -> Projector:
    return Projector(log, read_models, [SAMPLE], SystemClock())


async def test_what_is_in_the_log_comes_to_be_stored(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, STARTED, said("one"), DELTA, compressed(4))
    await append(log, B, CREATED, said("two"), STARTED, COMPLETED)
    await append(log, C, CREATED, STARTED, SessionDeleted())

    await projector.caught_up()

    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert (stored.seq, stored.rows) == (5, ((-5, b'"summary"'),))
    assert await read_models.positions("sample", 1) == {0: 12}
    listed = await read_models.list_sessions("sample", 1, owner=LOCAL_OWNER, after=None, limit=None)
    assert [session_id for session_id, _ in listed] == [A, B]
    assert [session_id for session_id, _ in await read_models.unfinished("sample", 1)] == [A]


async def test_each_partition_is_followed() -> None:
    log, read_models = InMemoryEventLog(partitions=3), InMemoryReadModels()
    projector = Projector(log, read_models, [SAMPLE], SystemClock())
    sessions = [session(number) for number in range(1, 9)]
    for session_id in sessions:
        await append(log, session_id, CREATED, said("one"))

    async with following(projector):
        heads = {part: (await log.read_all(part, after=0, limit=1)).head for part in range(3)}
        assert sum(heads.values()) == 16
        await stored_up_to(read_models, heads)

    for session_id in sessions:
        stored = await read_models.load("sample", 1, session_id)
        assert stored is not None
        assert stored.seq == 2


async def test_under_steady_load_a_batch_is_made_four_times_a_second_at_most(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    async with following(projector):
        await append(log, A, CREATED)
        await stored_up_to(read_models, {0: 1})
        before = read_models.batches
        for _ in range(100):
            await append(log, A, said("more"))
            await asyncio.sleep(0.01)
        await stored_up_to(read_models, {0: 101})

    # A little over a second, and one batch under way at either end.
    assert read_models.batches - before <= 7


async def test_a_projection_that_is_far_behind_does_not_rest(
    log: InMemoryEventLog, read_models: ObservedReadModels
) -> None:
    await append(log, A, CREATED, *(said(str(number)) for number in range(199)))

    async with following(Projector(log, read_models, [SAMPLE], SystemClock(), batch_events=1)):
        # With a rest after each of the 200 batches it would take 50 s.
        await stored_up_to(read_models, {0: 200})


async def test_a_session_that_cannot_be_folded_is_parked_and_the_others_go_on(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("good"))
    await append(log, B, CREATED, said("good"))
    await projector.caught_up()
    before = await read_models.load("sample", 1, A)

    await append(log, A, said("fine"), said(POISON), said("later"))
    await append(log, B, said("better"))
    await projector.caught_up()
    await append(log, A, said("much later"))
    await append(log, B, said("best"))
    await projector.caught_up()

    assert await read_models.parked("sample", 1) == (
        Parked(session_id=A, seq=4, error="KeyError: 'poison'"),
    )
    assert await read_models.load("sample", 1, A) == before
    others = await read_models.load("sample", 1, B)
    assert others is not None
    assert others.rows == ((2, b'"good"'), (3, b'"better"'), (4, b'"best"'))


async def test_a_parked_session_is_there_again_once_the_mended_projection_is_built_anew(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said(POISON), said("later"))
    await projector.caught_up()
    mended = SampleProjection(poison="nothing")

    await read_models.reset("sample", 1)
    await Projector(log, read_models, [mended], SystemClock()).caught_up()

    assert await read_models.parked("sample", 1) == ()
    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert stored.rows == ((2, b'"poison"'), (3, b'"later"'))


async def test_a_fork_begins_with_what_its_origin_had(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("one"), said("two"))
    await projector.caught_up()
    forked = SessionCreated(
        profile_id="default", owner=LOCAL_OWNER, forked_from=Origin(session_id=A, seq=2)
    )
    await append(log, B, forked, expected=2)
    await projector.caught_up()

    stored = await read_models.load("sample", 1, B)
    assert stored is not None
    assert (stored.seq, stored.rows) == (3, ((2, b'"one"'),))


async def test_the_projector_waits_for_a_checkpoint_that_another_process_holds(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED)

    async with asyncio.TaskGroup() as tasks, read_models.begin("sample", 1, 0):
        caught_up = tasks.create_task(projector.caught_up())
        while read_models.batches < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        assert not caught_up.done()

    assert await read_models.positions("sample", 1) == {0: 1}


async def test_two_processes_share_the_work(
    log: InMemoryEventLog, read_models: ObservedReadModels
) -> None:
    first, second = (
        Projector(log, read_models, [SAMPLE], SystemClock(), batch_events=2) for _ in range(2)
    )
    for number in range(20):
        await append(log, session(number), CREATED, said("one"), said("two"))

    await asyncio.gather(first.caught_up(), second.caught_up())

    for number in range(20):
        read = await read_session(log, read_models, SAMPLE, session(number))
        assert read == await replay_session(log, SAMPLE, session(number), until=3)
        stored = await read_models.load("sample", 1, session(number))
        assert stored is not None
        assert stored.seq == 3


async def test_the_projector_survives_what_happens_to_a_batch(log: InMemoryEventLog) -> None:
    read_models = ObservedReadModels(
        failures=(LogUnavailable("Postgres: no answer"), ValueError("a bug"))
    )
    await append(log, A, CREATED)

    async with following(Projector(log, read_models, [SAMPLE], SystemClock())):
        await stored_up_to(read_models, {0: 1})


async def test_a_crash_before_the_commit_stores_nothing_and_one_after_it_nothing_twice(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("one"))
    try:
        failpoints.arm(failpoints.parse("projection.before_commit=raise"))
        with pytest.raises(FailpointRaised):
            await projector.caught_up()
        assert await read_models.load("sample", 1, A) is None

        failpoints.arm(failpoints.parse("projection.after_commit=raise"))
        with pytest.raises(FailpointRaised):
            await projector.caught_up()
    finally:
        failpoints.arm(())
    await projector.caught_up()

    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert SAMPLE.decode_state(stored.state).messages == 1
    assert stored.rows == ((2, b'"one"'),)


async def test_a_cancelled_projector_leaves_no_task(projector: Projector) -> None:
    async with following(projector):
        await asyncio.sleep(0)

    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("project-")]


@asynccontextmanager
async def following(projector: Projector) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(projector.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=SOON)
    assert task.cancelled(), "the projector ended by itself"


async def stored_up_to(read_models: InMemoryReadModels, positions: dict[int, int]) -> None:
    async with asyncio.timeout(SOON):
        while await read_models.positions("sample", 1) != positions:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
