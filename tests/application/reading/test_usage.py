"""Usage is read from what is stored and the tail of the log: never stale, and each call once."""

from datetime import date
from typing import Any

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading import usage as reading
from navi.application.reading.usage import UsageQuery, spent_on, usage_report
from navi.domain.spending.usage import By
from navi.domain.vocabulary.events import (
    AgentEvent,
    ModelCalled,
    ModelReplied,
    Origin,
    Purpose,
    SessionCreated,
    SessionDeleted,
    Usage,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, Owner
from navi.projections.usage import Usage as UsageProjection
from tests.application.sample import CREATED, NOON, append, session

A, B, C = session(1), session(2), session(3)
ANNA = Owner("anna")
FIRST = NOON.date()


def call(number: int, tokens: int, *, purpose: Purpose = "turn") -> tuple[AgentEvent, AgentEvent]:
    """A call whose prompt came to so many tokens, and its reply."""
    call_id = CallId(f"c{number}")
    made = ModelCalled(
        call_id=call_id,
        purpose=purpose,
        model="m",
        backend="b",
        iteration=1,
        request_sha256="",
        context_seq=0,
        system_sha256=None,
        tools_sha256=None,
        options={},
        renderer="r/1",
        profile_id="assistant",
    )
    reply = ModelReplied(
        call_id=call_id,
        content="",
        thinking="",
        tool_calls=(),
        finish_reason="stop",
        usage=Usage(prompt_tokens=tokens, completion_tokens=0),
        duration_ms=1,
        first_chunk_ms=1,
    )
    return made, reply


class Scene:
    def __init__(self) -> None:
        self.log = InMemoryEventLog()
        self.read_models = InMemoryReadModels()
        self.projector = Projector(
            self.log, self.read_models, [UsageProjection()], SystemClock(), batch_events=3
        )

    async def used(self, *, by: By = "session", **wanted: Any) -> dict[str, int]:
        """Tokens by key."""
        owner = wanted.pop("owner", LOCAL_OWNER)
        found = await usage_report(
            self.log, self.read_models, (), UsageQuery(owner=owner, **wanted), by=by
        )
        return {row.key: row.prompt_tokens for row in found.rows}


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_it_holds_what_no_projector_has_seen(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *call(1, 10))
    await append(scene.log, B, CREATED, *call(2, 20))
    nothing_stored = await scene.used()
    await scene.projector.caught_up()
    await append(scene.log, A, *call(3, 1))

    assert nothing_stored == {A: 10, B: 20}
    assert await scene.used() == {A: 11, B: 20}


async def test_a_call_that_ends_behind_what_is_stored_is_counted(scene: Scene) -> None:
    made, reply = call(1, 10)
    await append(scene.log, A, CREATED, made)
    await scene.projector.caught_up()
    await append(scene.log, A, reply)

    assert await scene.used() == {A: 10}


async def test_while_it_is_built_the_log_has_the_rest(scene: Scene) -> None:
    for number, session_id in enumerate((A, B, C)):
        await append(scene.log, session_id, CREATED, *call(number, 10))
    build = await scene.read_models.open_build("usage", UsageProjection.version)
    async with scene.read_models.begin("usage", build.number, 0) as batch:
        assert batch is not None
        await batch.save((), parked=(), position=0)

    assert await scene.used() == {A: 10, B: 10, C: 10}


async def test_built_anew_it_says_the_same(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *call(1, 10), *call(2, 5, purpose="naming"))
    await append(scene.log, B, CREATED, *call(3, 20), SessionDeleted())
    await scene.projector.caught_up()
    was = await scene.used(by="purpose")

    build = await scene.read_models.rebuild("usage", UsageProjection.version)
    await scene.projector.build(UsageProjection(), build)

    assert was == await scene.used(by="purpose") == {"turn": 30, "naming": 5}


async def test_what_a_fork_shares_is_counted_in_its_origin_alone(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *call(1, 10))
    origin = Origin(session_id=A, seq=3)
    forked = SessionCreated(profile_id="default", owner=LOCAL_OWNER, forked_from=origin)
    await append(scene.log, B, forked, *call(2, 7), expected=3)
    in_the_tail = await scene.used()
    await scene.projector.caught_up()

    assert in_the_tail == await scene.used() == {A: 10, B: 7}


async def test_everybody_sees_their_own_and_an_admin_all(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *call(1, 10))
    await scene.projector.caught_up()
    await append(scene.log, B, SessionCreated(profile_id="p", owner=ANNA), *call(2, 5), owner=ANNA)

    assert await scene.used(owner=ANNA) == {B: 5}
    assert await scene.used(owner=None) == {A: 10, B: 5}
    assert await scene.used(owner=None, by="owner") == {LOCAL_OWNER: 10, ANNA: 5}
    assert await spent_on(scene.log, scene.read_models, owner=ANNA, day=FIRST) == 5


async def test_days_are_taken_with_both_ends(scene: Scene) -> None:
    await append(scene.log, A, CREATED, *call(1, 10))
    for stored in (False, True):
        if stored:
            await scene.projector.caught_up()
        assert await scene.used(first=FIRST, last=FIRST) == {A: 10}
        assert await scene.used(first=date(2100, 1, 1)) == {}
        assert await scene.used(last=date(2000, 1, 1)) == {}


async def test_more_sessions_than_a_page_are_all_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE", 2)
    sessions = [session(number) for number in range(10, 15)]
    for number, session_id in enumerate(sessions):
        await append(scene.log, session_id, CREATED, *call(number, 1))
    await scene.projector.caught_up()

    assert await scene.used() == dict.fromkeys(sessions, 1)
    assert await spent_on(scene.log, scene.read_models, owner=LOCAL_OWNER, day=FIRST) == 5
