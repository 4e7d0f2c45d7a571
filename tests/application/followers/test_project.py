import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from structlog.testing import capture_logs

from navi import failpoints
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.list_sessions import list_sessions
from navi.application.reading.read_session import read_session, replay_session
from navi.domain.reading.projection import Change, Listing, Put
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import (
    Envelope,
    Origin,
    SessionCreated,
    SessionDeleted,
    UnknownEvent,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.failpoints import FailpointRaised
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from navi.ports.log_partitions import Page
from navi.ports.read_model_builds import ProjectionBatch, SessionChanges
from navi.ports.read_models import ParkedEvent
from navi.projections.sessions import Sessions
from tests.application.sample import (
    COMPLETED,
    CREATED,
    DELTA,
    POISON,
    STARTED,
    Sample,
    SampleProjection,
    append,
    compressed,
    said,
    session,
)

A, B, C = session(1), session(2), session(3)
SAMPLE = SampleProjection()
PUT_OLD = Put(key=-7, row=b'"old"')
SOON = 60.0  # seconds: a deadline, not a wait


class ObservedReadModels(InMemoryReadModels):
    """Counts batches, and fails the first few where it is told to."""

    def __init__(self, *, failures: tuple[Exception, ...] = ()) -> None:
        super().__init__()
        self.batches = 0
        self._failures = list(failures)

    def begin(
        self, projection: str, build: int, partition: int
    ) -> AbstractAsyncContextManager[ProjectionBatch | None]:
        self.batches += 1
        if self._failures:
            raise self._failures.pop(0)
        return super().begin(projection, build, partition)


class SlowReadModels(InMemoryReadModels):
    """Has time for batches of so many events, and gives up larger ones; notes how many each had."""

    def __init__(self, *, most: int) -> None:
        super().__init__()
        self.most = most
        self.tried: list[int] = []

    @asynccontextmanager
    async def _begin(
        self, projection: str, build: int, partition: int
    ) -> AsyncGenerator[ProjectionBatch | None, None]:
        async with super()._begin(projection, build, partition) as batch:
            before = 0 if batch is None else batch.position
            yield batch
            if batch is not None and batch.position > before:
                self.tried.append(batch.position - before)
                if self.tried[-1] > self.most:
                    raise LogUnavailable("Postgres: no answer (QueryCanceledError)")


class DamagedLog(InMemoryEventLog):
    """Gives one event of every session with a payload that somebody has cut off."""

    def __init__(self, *, seq: int) -> None:
        super().__init__()
        self._seq = seq

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        page = await super().read_all(partition, after=after, limit=limit, deltas=deltas)
        return replace(page, rows=tuple(self._damage(row) for row in page.rows))

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        rows = super().read(session_id, after=after, until=until, types=types)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield tuple(self._damage(row) for row in batch)

    def _damage(self, row: Recorded) -> Recorded:
        return replace(row, data=row.data[:-1]) if row.seq == self._seq else row


class Unstorable(SampleProjection):
    """Folds everything; of what it makes of poison something cannot be stored."""

    def __init__(self, broken: str) -> None:
        super().__init__(poison="nothing")
        self._broken = broken

    def fold(self, state: Sample, envelope: Envelope) -> tuple[Sample, tuple[Change, ...]]:
        state, changes = super().fold(state, envelope)
        match envelope.event:
            case UserMessageReceived(content=content) if content == POISON:
                return replace(state, messages=-99), changes
            case _:
                return state, changes

    def encode_row(self, row: Any) -> bytes:
        if self._broken == "row" and row == POISON:
            raise ValueError(POISON)
        return super().encode_row(row)

    def encode_state(self, state: Sample) -> bytes:
        if self._broken == "state" and state.messages < 0:
            raise ValueError(POISON)
        return super().encode_state(state)

    def listing(self, state: Sample) -> Listing | None:
        if self._broken == "listing" and state.messages < 0:
            raise ValueError(POISON)
        return super().listing(state)


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
    assert [
        session_id
        for session_id, _ in await read_models.unfinished("sample", 1, after=None, limit=9)
    ] == [A]


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
        before, loop = read_models.batches, asyncio.get_running_loop()
        began = loop.time()
        for _ in range(100):
            await append(log, A, said("more"))
            await asyncio.sleep(0.01)
        await stored_up_to(read_models, {0: 101})
        seconds = loop.time() - began

    # And one batch under way at either end.
    assert read_models.batches - before <= 4 * seconds + 2


async def test_a_projection_that_is_far_behind_does_not_rest(
    log: InMemoryEventLog, read_models: ObservedReadModels
) -> None:
    await append(log, A, CREATED, *(said(str(number)) for number in range(199)))

    async with following(Projector(log, read_models, [SAMPLE], SystemClock(), batch_events=1)):
        # With a rest after each of the 200 batches it would take 50 s.
        await stored_up_to(read_models, {0: 200})


def parked(seq: int, error: str = "KeyError: 'poison'") -> ParkedEvent:
    return ParkedEvent(session_id=A, seq=seq, type="user_message_received", error=error)


async def test_an_event_that_cannot_be_folded_is_parked_and_its_session_goes_on_without_it(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("good"), said(POISON), said("later"))
    await append(log, B, CREATED, said("fine"))
    await projector.caught_up()
    await append(log, A, said("much later"), said(POISON))
    await append(log, B, said("best"))
    await projector.caught_up()

    assert await read_models.parked("sample", 1) == (parked(3), parked(6))
    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert stored.seq == 6
    assert stored.rows == ((2, b'"good"'), (4, b'"later"'), (5, b'"much later"'))
    assert SAMPLE.decode_state(stored.state).messages == 3
    others = await read_models.load("sample", 1, B)
    assert others is not None
    assert others.rows == ((2, b'"fine"'), (3, b'"best"'))


async def test_a_read_passes_over_a_poison_event_whether_it_is_stored_already_or_not(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("good"), said(POISON), said("later"))

    before = await read_session(log, read_models, SAMPLE, A)
    await projector.caught_up()
    after = await read_session(log, read_models, SAMPLE, A)

    assert before == after == await replay_session(log, SAMPLE, A, until=4)
    assert after.rows == ("good", "later")


async def test_an_event_whose_payload_is_damaged_is_passed_over_too(
    read_models: ObservedReadModels,
) -> None:
    log = DamagedLog(seq=3)
    await append(log, A, CREATED, said("good"), said("damaged"), said("later"))

    before = await read_session(log, read_models, SAMPLE, A)
    await Projector(log, read_models, [SAMPLE], SystemClock()).caught_up()

    assert before == await read_session(log, read_models, SAMPLE, A)
    assert before.rows == ("good", "later")
    (event,) = await read_models.parked("sample", 1)
    assert event.seq == 3
    assert event.error.startswith("LogDamaged: payload of a user_message_received")


@pytest.mark.parametrize("broken", ["row", "state", "listing"])
async def test_an_event_that_leads_to_something_that_cannot_be_stored_is_parked(
    log: InMemoryEventLog, read_models: ObservedReadModels, broken: str
) -> None:
    await append(log, A, CREATED, said("good"), said(POISON), said("later"))

    await Projector(log, read_models, [Unstorable(broken)], SystemClock()).caught_up()

    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert stored.rows == ((2, b'"good"'), (4, b'"later"'))
    assert await read_models.parked("sample", 1) == (parked(3, "ValueError: poison"),)


async def test_a_stored_state_that_cannot_be_read_is_made_again_from_the_log(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    await append(log, A, CREATED, said("one"))
    await projector.caught_up()
    broken = SessionChanges(
        session_id=A, owner=LOCAL_OWNER, seq=2, state=b'{"messages": "?"}', changes=(PUT_OLD,)
    )
    async with read_models.begin("sample", 1, 0) as batch:
        assert batch is not None
        await batch.save([broken], parked=(), position=2)

    whole = await replay_session(log, SAMPLE, A, until=2)
    assert await read_session(log, read_models, SAMPLE, A) == whole
    await append(log, A, said("two"))
    await projector.caught_up()

    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert (stored.seq, stored.rows) == (3, ((2, b'"one"'), (3, b'"two"')))


async def test_a_listed_state_that_was_forgotten_is_folded_anew_without_a_word(
    log: InMemoryEventLog, read_models: ObservedReadModels
) -> None:
    projector = Projector(log, read_models, [Sessions()], SystemClock())
    await append(log, A, CREATED, said("one"))
    await projector.caught_up()
    await read_models.forget(A, keep_listed=True)
    page = await list_sessions(log, read_models, owner=LOCAL_OWNER)
    await append(log, A, said("two"))

    with capture_logs() as logs:
        await projector.caught_up()

    assert [(each.id, each.seq) for each in page.sessions] == [(A, 2)]
    assert logs == []
    stored = await read_models.load(Sessions.name, Sessions.version, A)
    assert stored is not None
    assert stored.seq == 3
    whole = await replay_session(log, Sessions(), A, until=3)
    assert Sessions().decode_state(stored.state) == whole.state


async def test_a_type_or_version_of_a_newer_navi_is_passed_over_and_said_once(
    log: InMemoryEventLog, read_models: ObservedReadModels, projector: Projector
) -> None:
    newer = UnknownEvent(name="user_message_received", version=9, data=Raw(b'{"words":["hi"]}'))
    unheard = UnknownEvent(name="mood_changed", version=1, data=Raw(b'{"mood":"blue"}'))
    await append(log, A, CREATED, newer, newer, unheard, said("hello"))

    with capture_logs() as logs:
        await projector.caught_up()

    said_of = [(entry["type"], entry["v"]) for entry in logs if "newer" in entry["event"]]
    assert said_of == [("user_message_received", 9), ("mood_changed", 1)]
    assert await read_models.parked("sample", 1) == ()
    stored = await read_models.load("sample", 1, A)
    assert stored is not None
    assert stored.rows == ((5, b'"hello"'),)


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

    await read_models.open_build("sample", 1)
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


async def test_a_batch_that_takes_too_long_is_halved_until_it_is_taken(
    log: InMemoryEventLog,
) -> None:
    read_models = SlowReadModels(most=1)
    projector = Projector(log, read_models, [SAMPLE], SystemClock(), batch_events=8)
    await append(log, A, CREATED, *(said(str(number)) for number in range(19)))

    for _ in range(3):
        with pytest.raises(LogUnavailable):
            await projector.caught_up()
    read_models.most = 8
    await projector.caught_up()

    assert read_models.tried == [8, 4, 2, 1, 2, 4, 8, 5]
    assert await read_models.positions("sample", 1) == {0: 20}


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
