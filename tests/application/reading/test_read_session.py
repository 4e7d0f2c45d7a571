import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.read_session import View, read_session, replay_session
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.event_codec import type_of
from navi.domain.vocabulary.events import (
    AgentEvent,
    CompressionUndone,
    MessageWithdrawn,
    SessionPinned,
)
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from navi.projections.context import Context
from tests.application.sample import (
    COMPLETED,
    CREATED,
    DELTA,
    STARTED,
    Sample,
    SampleProjection,
    append,
    compressed,
    said,
    session,
)

A, B = session(1), session(2)
SAMPLE = SampleProjection()


class Scene:
    """A log, its read models, and a projector that runs when it is told to."""

    def __init__(self, *, batch_events: int = 500) -> None:
        self.log = InMemoryEventLog()
        self.read_models = InMemoryReadModels()
        self.projector = Projector(
            self.log, self.read_models, [SAMPLE], SystemClock(), batch_events=batch_events
        )

    async def read(
        self, *, at: int | None = None, after: int | None = None, limit: int | None = None
    ) -> View[Sample]:
        return await read_session(
            self.log, self.read_models, SAMPLE, A, at=at, after=after, limit=limit
        )

    async def rows(self, *, after: int | None = None, limit: int | None = None) -> tuple[Any, ...]:
        return (await self.read(after=after, limit=limit)).rows

    async def repeat_everything(self) -> None:
        """Set the checkpoint back, so that every event comes again."""
        build = await self.read_models.open_build(SAMPLE.name, SAMPLE.version)
        async with self.read_models.begin(SAMPLE.name, build.number, 0) as batch:
            assert batch is not None
            await batch.save((), parked=(), position=0)
        await self.projector.caught_up()


class FetchedLog(InMemoryEventLog):
    """Remembers what types of events it gave out."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: set[str] = set()

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async for rows in super().read(session_id, after=after, until=until, types=types):
            self.fetched |= {row.type for row in rows}
            yield rows


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_session_that_is_not_there_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotFound):
        await scene.read()
    with pytest.raises(NotFound):
        await scene.read(at=0)


async def test_a_read_holds_what_no_projector_has_seen(scene: Scene) -> None:
    await append(scene.log, A, CREATED, said("one"))
    nothing_stored = (await scene.read()).rows
    await scene.projector.caught_up()
    await append(scene.log, A, said("two"))

    assert nothing_stored == ("one",)
    assert (await scene.read()).rows == ("one", "two")


async def test_the_seq_of_a_read_is_the_head_of_the_session(scene: Scene) -> None:
    await append(scene.log, A, CREATED, said("one"), DELTA)
    await append(scene.log, B, CREATED)
    await scene.projector.caught_up()
    await append(scene.log, A, DELTA)

    assert (await scene.read()).seq == 4


async def test_what_a_projection_does_not_read_is_not_fetched() -> None:
    log = FetchedLog()
    await append(log, A, CREATED, said("one"), STARTED, DELTA, COMPLETED, said("two"))

    view = await replay_session(log, Context(), A, until=6)

    assert view.seq == 6
    assert {type_of(said("one"))} == log.fetched <= Context().reads


async def test_the_past_is_the_fold_of_the_events_up_to_then(scene: Scene) -> None:
    await append(scene.log, A, CREATED, said("one"), compressed(3), said("two"))
    await scene.projector.caught_up()

    assert await scene.read(at=0) == View(seq=0, state=Sample(), rows=())
    assert (await scene.read(at=2)).rows == ("one",)
    assert (await scene.read(at=3)).rows == ("summary",)
    assert await scene.read(at=4) == await scene.read()


@pytest.mark.parametrize("at", [-1, 3])
async def test_there_is_no_past_beyond_the_head(scene: Scene, at: int) -> None:
    await append(scene.log, A, CREATED, said("one"))

    with pytest.raises(BadInput, match="at: the session has events 1 to 2"):
        await scene.read(at=at)


async def test_a_page_crosses_from_what_is_stored_to_the_tail(scene: Scene) -> None:
    await append(scene.log, A, CREATED, said("one"), said("two"))
    await scene.projector.caught_up()
    await append(scene.log, A, said("three"), MessageWithdrawn(message_seq=2))

    assert await scene.rows(limit=2) == ("withdrawn", "two")
    assert await scene.rows(after=2, limit=2) == ("two", "three")
    assert await scene.rows(after=3, limit=2) == ("three",)
    assert await scene.rows(after=4) == ()
    assert await scene.rows(limit=0) == ()


async def test_rows_move_up_where_the_tail_hides_those_of_a_page(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *(said(text) for text in "abcdef"))
    await scene.projector.caught_up()
    await append(scene.log, A, compressed(4))

    assert await scene.rows(limit=3) == ("summary", "c", "d")


async def test_the_tail_brings_back_what_was_hidden_long_ago(scene: Scene) -> None:
    await append(scene.log, A, CREATED, said("one"), said("two"), compressed(3))
    await scene.projector.caught_up()
    await append(scene.log, A, CompressionUndone(compression_seq=4))

    assert await scene.rows() == ("one", "two")
    assert await scene.rows(limit=1) == ("one",)


EVENTS: st.SearchStrategy[AgentEvent] = st.one_of(
    st.sampled_from("abc").map(said),
    st.just(DELTA),
    st.builds(MessageWithdrawn, message_seq=st.integers(2, 12)),
    st.builds(compressed, st.integers(-4, 14)),
    st.builds(CompressionUndone, compression_seq=st.integers(2, 14)),
    st.builds(SessionPinned, pinned=st.booleans()),
    st.sampled_from([STARTED, COMPLETED]),
)


@given(
    parts=st.lists(st.lists(EVENTS, min_size=1, max_size=5), max_size=5),
    tail=st.lists(EVENTS, max_size=5),
    batch_events=st.integers(1, 4),
    repeated=st.booleans(),
    after=st.none() | st.integers(-6, 12),
    limit=st.none() | st.integers(0, 6),
)
def test_what_is_stored_and_the_tail_are_the_fold_from_nothing(
    parts: list[list[AgentEvent]],
    tail: list[AgentEvent],
    batch_events: int,
    repeated: bool,
    after: int | None,
    limit: int | None,
) -> None:
    async def example() -> None:
        scene = Scene(batch_events=batch_events)
        await append(scene.log, A, CREATED)
        for part in parts:
            await append(scene.log, A, *part)
            await append(scene.log, B, CREATED if part is parts[0] else DELTA)
            await scene.projector.caught_up()
        if repeated:
            await scene.repeat_everything()
        await append(scene.log, A, *tail)

        read = await scene.read(after=after, limit=limit)

        head = await scene.log.head(A)
        assert read == await replay_session(
            scene.log, SAMPLE, A, until=head, after=after, limit=limit
        )
        assert read == await scene.read(at=head, after=after, limit=limit)

    asyncio.run(example())
