"""What is open in an owner's sessions is known at once, however far the stored list is."""

import pytest
from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.followers.project import Projector
from navi.application.reading.catalogue import open_work_of
from navi.domain.vocabulary.events import AgentEvent
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, Owner, SessionId, TurnId
from navi.ports.event_log import Append, NewEvent
from navi.projections.sessions import Sessions
from tests.application.sample import (
    COMPLETED,
    CREATED,
    NOON,
    STARTED,
    OldSessions,
    append,
    said,
    session,
    uuid,
)

ANNA = Owner("anna")


@pytest.mark.parametrize("listed", [None, Sessions(), OldSessions()], ids=["not", "own", "old"])
async def test_an_open_turn_is_found_until_it_has_ended(listed: Sessions | None) -> None:
    log, read_models = InMemoryEventLog(), InMemoryReadModels()
    for number, owner in ((1, LOCAL_OWNER), (2, ANNA), (3, LOCAL_OWNER)):
        created = replace(CREATED, owner=owner)
        await append(log, session(number), created, said("hello"), owner=owner)
        await in_turn(log, session(number), STARTED, owner=owner)
    if listed is not None:
        await Projector(log, read_models, [listed], SystemClock()).caught_up()

    found = await open_work_of(log, read_models, LOCAL_OWNER)
    await in_turn(log, session(1), COMPLETED)

    assert found == {turn(session(1)), turn(session(3))}
    assert await open_work_of(log, read_models, LOCAL_OWNER) == {turn(session(3))}
    assert await open_work_of(log, read_models, ANNA) == {turn(session(2))}


def turn(session_id: SessionId) -> TurnId:
    return TurnId(session_id.replace("7000", "7001"))


async def in_turn(
    log: InMemoryEventLog, session_id: SessionId, event: AgentEvent, *, owner: Owner = LOCAL_OWNER
) -> None:
    seq = await log.head(session_id)
    new = NewEvent(
        id=EventId(uuid(int(session_id[9:13], 16) * 1000 + seq)),
        at=NOON,
        turn_id=turn(session_id),
        subagent_id=None,
        event=event,
    )
    await log.append(Append(session_id=session_id, owner=owner, expected=seq, events=(new,)))
