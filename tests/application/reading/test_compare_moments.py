"""What changed between two moments, of one session or of two."""

from pathlib import Path

import pytest

from navi.application.reading.compare_moments import Comparison, Moment, compare_moments
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.ids import SessionId
from tests.support.agent_node import World, agent_node
from tests.support.model_server import ModelServer

LIST = '!tool todo {"action": "set", "items": [{"text": "look"}]}\n!then\n!say Set.'
DONE = '!tool todo {"action": "update", "id": "1", "status": "done"}\n!then\n!say Done.'


async def told(world: World, *moments: tuple[SessionId, int]) -> Comparison:
    a, b = (Moment(session_id=session_id, seq=seq) for session_id, seq in moments)
    return await compare_moments(world.log, a, b)


def contents(comparison: Comparison) -> tuple[list[str], list[str]]:
    """What was said more and less."""
    messages = comparison.messages
    return [m.content for m in messages.added], [m.content for m in messages.removed]


async def test_one_session_at_two_moments(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        session_id = await node.session()
        first = await node.ask(session_id, LIST)
        second = await node.ask(session_id, DONE)

        ahead = await told(world, (session_id, first.seq), (session_id, second.seq))
        back = await told(world, (session_id, second.seq), (session_id, first.seq))
        same = await told(world, (session_id, first.seq), (session_id, first.seq))

    assert ahead.common == back.common == first.seq
    assert contents(ahead)[0][0] == DONE
    assert contents(ahead)[0][-1] == "Done."
    assert contents(back) == contents(ahead)[::-1]
    [change] = ahead.todo.changed
    assert (change.before.status, change.after.status) == ("pending", "done")
    assert {one.kind for one in ahead.events} == {"added"}
    assert next(one.after.seq for one in ahead.events if one.after) == first.seq + 1
    assert {one.kind for one in back.events} == {"removed"}
    assert (contents(same), same.events) == (([], []), ())


async def test_a_fork_against_its_origin(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        origin = await node.session()
        head = (await node.ask(origin, "!say One")).seq
        fork = (await node.fork_session(origin, at=head)).session.id
        one = await node.ask(origin, "!say Two")
        other = await node.ask(fork, "!say Three")

        found = await told(world, (origin, one.seq), (fork, other.seq))

    assert found.common == head
    assert contents(found) == (["!say Three", "Three"], ["!say Two", "Two"])
    outline = [
        (one.kind, "" if one.after is None else type(one.after.event).__name__, one.fields)
        for one in found.events
    ]
    assert outline[:2] == [
        ("added", "SessionCreated", ()),
        ("changed", "UserMessageReceived", ("content",)),
    ]
    assert outline[-1][:2] == ("changed", "ModelReplied")
    assert all(one.before is None or one.before.id in found.rows for one in found.events)


async def test_a_moment_that_never_was_is_refused(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        session_id = await node.session()
    nobody = SessionId("01890000-0000-7000-8000-000000000000")

    with pytest.raises(BadInput, match=r"B: session .* has events 1 to 1"):
        await told(world, (session_id, 1), (session_id, 2))
    with pytest.raises(NotFound):
        await told(world, (session_id, 1), (nobody, 0))
