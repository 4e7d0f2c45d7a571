"""Forks of a session with all that an agent does, at every event of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from navi.adapters.postgres.log.event_log import PostgresEventLog
from navi.application.reading.read_session import read_session, replay_session
from navi.domain.log.hash_chain import verify_chain
from navi.domain.reading.projection import Projection
from navi.domain.vocabulary.events import Origin
from navi.domain.vocabulary.ids import SessionId
from navi.projections import sessions
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.todo import Todo
from tests.application.agent.test_mind import SPAWN, WRITE
from tests.support.agent_node import AgentNode, World, agent_node, write_profiles
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls
from tests.support.promises import broken_promises

BUFFERS: tuple[Projection[Any], ...] = (Messages(), Context(), Todo(), PlanningLog())


async def whole_mind(node: AgentNode, server: ModelServer) -> SessionId:
    """A session in which was planned, delegated, named, remembered and compressed."""
    session_id = await node.session("planner")
    server.scripted |= {"naming", "memory"}
    for answer in ("Goal: a file\nREFLECT: no", "1. write it (SELF)\n2. check it (SELF)\n"):
        server.answer(Say(answer), Done())
    server.answer(calls(SPAWN, WRITE), Done())
    server.answer(calls(WRITE), Done())  # the subagent's
    server.answer(Say("found"), Done())
    server.answer(Say("done"), Done())
    server.answer(Say("A name"), Done())
    server.answer(Say("- likes tea"), Done())
    await node.outcome(
        session_id, await node.say(session_id, "write a file. I like tea", planning=True)
    )
    await node.world.seen(session_id, "memory_saved")
    server.answer(Say("DIRECT"), Done())
    server.answer(Say("of course"), Done())
    server.answer(Say("NONE"), Done())
    await node.outcome(session_id, await node.say(session_id, "and now?", planning=True))
    await node.world.seen(session_id, "model_replied", 11)
    server.answer(Say("- a file was written"), Done())
    compressed = await node.contexts.compress(session_id)
    assert compressed.compressed
    return session_id


@pytest.mark.parametrize("kept_every", [sessions.KEPT_EVERY, 4])
async def test_at_every_event_a_fork_is_what_its_origin_was_and_goes_on(
    kept_every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "KEPT_EVERY", kept_every)
    world = World()
    folder = write_profiles(tmp_path, planner={"planning_enabled": True})
    async with ModelServer() as server:
        async with agent_node(
            world, tmp_path, [server.url], profiles=folder, follow=True, keep_recent=1
        ) as node:
            origin = await whole_mind(node, server)
        await world.project()
        before = await world.events(origin)
        assert "context_compressed" in {row.type for row in before}
        async with agent_node(world, tmp_path, [server.url], profiles=folder) as node:
            moved = 0
            for at in range(len(before) + 1):
                made = await node.fork_session(origin, at=at)
                fork, cut = made.session.id, made.session.seq
                cut -= sum(1 for row in await world.events(fork) if row.session_id == fork)
                assert made.session.forked_from == Origin(session_id=origin, seq=cut)
                moved += cut < at
                await holds_what_was(world, origin, fork, cut)

                assert (await node.ask(fork, "!say Go on")).content == "Go on", at

                rows = await world.events(fork)
                assert rows[:cut] == before[:cut]
                assert list(verify_chain(rows)) == []
                assert broken_promises([json.loads(row.wire) for row in rows]) == [], at
            assert 0 < moved < len(before)
    assert await world.events(origin) == before


async def holds_what_was(world: World, origin: SessionId, fork: SessionId, cut: int) -> None:
    """Whether the buffers of a fork are those that its origin had, but for what was withdrawn."""
    for projection in BUFFERS[1:]:
        was = await replay_session(world.log, projection, origin, until=cut)
        now = await read_session(world.log, world.read_models, projection, fork)
        assert now.rows == was.rows
    was = await replay_session(world.log, Messages(), origin, until=cut)
    now = await read_session(world.log, world.read_models, Messages(), fork)
    assert [row.seq for row in now.rows] == [row.seq for row in was.rows]


async def test_a_kept_state_that_cannot_be_read_is_made_again_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()

    async def last_row(*_: Any, until: int) -> tuple[int, bytes]:
        return until, b'{"turn": "of a navi that kept something else"}'

    monkeypatch.setattr(world.read_models, "last_row", last_row)
    async with ModelServer() as server, agent_node(world, tmp_path, [server.url]) as node:
        origin = await node.session()
        head = (await node.ask(origin, "!say One")).seq

        made = await node.fork_session(origin, at=head)

        assert made.session.forked_from == Origin(session_id=origin, seq=head)
        assert (await node.ask(made.session.id, "!say Two")).content == "Two"


async def test_a_fork_stands_in_a_partition_of_its_own(database: str, tmp_path: Path) -> None:
    async with (
        PostgresEventLog.open(database, partitions=4, allow_unsafe_durability=True) as log,
        ModelServer() as server,
        agent_node(World(log), tmp_path, [server.url]) as node,
    ):
        world = node.world
        origin = await node.session()
        head = (await node.ask(origin, "!say One")).seq
        forks = [(await node.fork_session(origin, at=head)).session.id for _ in range(8)]
        again = [(await node.fork_session(fork, at=head + 1)).session.id for fork in forks]
        fresh = [await buffers(world, fork) for fork in again]
        await world.project()
        stored = [await buffers(world, fork) for fork in again]

        assert fresh == stored == [await buffers(world, origin)] * len(again)
        rows = [await world.events(fork) for fork in again]
        assert len({stream[-1].partition for stream in rows}) > 1
        assert [list(verify_chain(stream)) for stream in rows] == [[]] * len(rows)
        assert (await node.ask(again[-1], "!say Two")).content == "Two"


async def buffers(world: World, session_id: SessionId) -> list[object]:
    return [
        (await read_session(world.log, world.read_models, projection, session_id)).rows
        for projection in BUFFERS
    ]
