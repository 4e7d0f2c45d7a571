"""Sessions that nobody works on are found: one's trouble is not another's, nor is their number."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from navi.adapters.in_memory.nodes import InMemoryNodes
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import SystemClock
from navi.application.agent import take_over
from navi.application.agent.take_over import TakeOver
from navi.application.followers.project import Projector
from navi.domain.session.session import FollowUp
from navi.domain.vocabulary.errors import LogDamaged, LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, NodeId, SessionId
from navi.ports.event_log import Append, NewEvent
from navi.ports.log_partitions import Page
from navi.ports.nodes import Nodes, NodeState
from navi.ports.read_models import Build, StoredState
from navi.projections.sessions import Sessions
from tests.application.sample import OldSessions, session, uuid
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.app import SwitchedLog
from tests.support.damaged_log import DamagedLog
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall, calls


class CountedReadModels(InMemoryReadModels):
    """Read models that note the sessions that a look for unfinished ones is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[list[SessionId]] = []

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().unfinished(projection, version, after=after, limit=limit)
        self.given.append([session_id for session_id, _ in found])
        return found

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().owing(projection, version, after=after, limit=limit)
        self.given[-1] += [session_id for session_id, _ in found]
        return found


class HalfBuiltList(InMemoryReadModels):
    """Read models in which this version's list of sessions is not complete yet."""

    async def builds(self, projections: Sequence[str]) -> Sequence[Build]:
        return [
            replace(build, state="building") if build.version == Sessions.version else build
            for build in await super().builds(projections)
        ]


class GarbledList(InMemoryReadModels):
    """Read models of which the states of sessions cannot be decoded."""

    async def load(
        self,
        projection: str,
        version: int,
        session_id: SessionId,
        *,
        rows_after: int | None = None,
        rows_limit: int | None = None,
        hidden: bool = False,
    ) -> StoredState | None:
        found = await super().load(
            projection,
            version,
            session_id,
            rows_after=rows_after,
            rows_limit=rows_limit,
            hidden=hidden,
        )
        return found and garbled(found)

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().unfinished(projection, version, after=after, limit=limit)
        return [(session_id, garbled(stored)) for session_id, stored in found]

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        found = await super().owing(projection, version, after=after, limit=limit)
        return [(session_id, garbled(stored)) for session_id, stored in found]


def garbled(stored: StoredState) -> StoredState:
    """The same, in a form that nobody knows."""
    return replace(stored, state=b"garbled")


class LeavingNodes(InMemoryNodes):
    """Nodes of a Postgres that answers once, and no more."""

    def __init__(self, cluster: dict[NodeId, Any]) -> None:
        super().__init__(cluster)
        self._answers = iter([True])

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        if next(self._answers, False):
            return await super().state_of(node_ids)
        raise LogUnavailable("Postgres does not answer")


class NotedNodes(InMemoryNodes):
    """Nodes that note who is not to be forgotten."""

    def __init__(self, cluster: dict[NodeId, Any]) -> None:
        super().__init__(cluster)
        self.spared: list[set[NodeId]] = []

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        self.spared.append(set(but))


@pytest.mark.parametrize("read_models", [InMemoryReadModels, GarbledList, HalfBuiltList])
@pytest.mark.parametrize(
    "trouble",
    [
        LogDamaged("an event is missing"),
        LogUnavailable("partition 3 was added after this process was started"),
    ],
)
async def test_a_session_that_cannot_be_read_keeps_no_other_from_being_taken_over(
    tmp_path: Path, trouble: Exception, read_models: type[InMemoryReadModels]
) -> None:
    log = DamagedLog(trouble)
    world = World(log, read_models=read_models())
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as dies:
            damaged, other = sorted([await dies.session(), await dies.session()])
            for session_id in (damaged, other):
                models.answer(Say("Once upon"), Stall(asyncio.Event()))
                await dies.say(session_id, "tell")
                await world.seen(session_id, "text_delta")
        await projected(world, OldSessions() if read_models is HalfBuiltList else Sessions())
        models.answer(Say("a time"), Done())
        models.answer(Say("a time"), Done())
        async with agent_node(world, tmp_path, [models.url]) as lives:
            log.damaged = {damaged}
            await lives.take_over.poll()
            await world.seen(other, "turn_completed")

            log.damaged = set()
            await lives.take_over.poll()
            await world.seen(damaged, "turn_completed")


async def test_a_look_ends_when_postgres_does_not_answer_about_anything(tmp_path: Path) -> None:
    """Else each session would have to wait until it does not answer."""
    log = DamagedLog(LogUnavailable("Postgres does not answer"))
    world = World(log)
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as dies:
        sessions = sorted([await dies.session(), await dies.session()])
        for session_id in sessions:
            models.answer(Say("Once upon"), Stall(asyncio.Event()))
            await dies.say(session_id, "tell")
            await world.seen(session_id, "text_delta")
    await world.project()
    async with agent_node(world, tmp_path, []) as lives:
        log.damaged = set(sessions)
        with pytest.raises(LogUnavailable):
            await take_over_of(lives, LeavingNodes(world.cluster)).poll()

    assert log.tried == sessions[:1]
    log.damaged = set()


async def test_what_a_node_owes_is_seen_to_where_the_stored_state_cannot_be_decoded(
    tmp_path: Path,
) -> None:
    world = World(read_models=GarbledList())
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as owes:
        models.answer(Say("hello"), Done())
        session_id = await owes.session()
        await owes.ask(session_id, "hi")
    await world.project()
    left_behind: list[SessionId] = []
    async with agent_node(world, tmp_path, []) as lives:
        nodes = InMemoryNodes(world.cluster)
        await take_over_of(lives, nodes, left_behind=lambda id_, _: left_behind.append(id_)).poll()

    assert left_behind == [session_id]


async def test_of_many_sessions_that_wait_for_what_follows_a_turn_a_few_are_looked_at_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_over, "OWING_AT_ONCE", 2)
    world = World(read_models=(read_models := CountedReadModels()))
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as dies:
        sessions: list[SessionId] = []
        for _ in range(5):
            models.answer(Say("hello"), Done())
            sessions.append(await dies.session())
            await dies.ask(sessions[-1], "hi")
    await world.project()
    async with agent_node(world, tmp_path, []) as lives:
        read_models.given.clear()
        for _ in range(4):
            await lives.take_over.poll()

    first, second, third, fourth, fifth = sorted(sessions)
    assert read_models.given == [[first, second], [third, fourth], [fifth], [first, second]]


async def test_a_dead_nodes_turn_is_taken_over_at_once_however_many_sessions_wait_for_a_person(
    tmp_path: Path,
) -> None:
    world = World(read_models=(read_models := CountedReadModels()))
    asks = tmp_path / "profiles" / "assistant"
    asks.mkdir(parents=True)
    (asks / "config.json").write_text(json.dumps({"approvals": [{"tool": "*", "then": "ask"}]}))
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url], profiles=asks.parent) as dies:
            models.answer(calls(("todo", {"action": "list"})), Done())
            waits = await dies.session()
            await dies.say(waits, "list it")
            await dies.runs.ended(waits)
            models.answer(Say("Once upon"), Stall(asyncio.Event()))
            runs = await dies.session()
            await dies.say(runs, "tell")
            await world.seen(runs, "text_delta")
        many = [session(number) for number in range(1, 1000)]  # before the others, by their ids
        for session_id in many:
            await copy(world, waits, session_id)
        await world.project()
        models.answer(Say("a time"), Done())
        async with agent_node(world, tmp_path, [models.url]) as lives:
            read_models.given.clear()
            nodes = NotedNodes(world.cluster)
            looks = take_over_of(lives, nodes)
            await looks.poll()
            await world.seen(runs, "turn_completed")
            for _ in range(19):
                await looks.poll()

    assert [len(given) for given in read_models.given] == [51] * 20
    seen = [id_ for given in read_models.given for id_ in given if id_ != runs]
    assert seen == [*many, waits]
    assert nodes.spared == []  # whose turns there are is not known before all were looked at


async def test_a_node_with_a_turn_that_waits_for_a_person_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_over, "OWING_AT_ONCE", 1)
    world = World()
    folder = tmp_path / "profiles" / "assistant"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"approvals": [{"tool": "*", "then": "ask"}]}))
    gone: set[NodeId] = set()
    async with ModelServer() as models:
        for _ in range(2):
            async with agent_node(world, tmp_path, [models.url], profiles=folder.parent) as dies:
                models.answer(calls(("todo", {"action": "list"})), Done())
                session_id = await dies.session()
                await dies.say(session_id, "list it")
                await dies.runs.ended(session_id)
                gone.add(dies.id)
    await world.project()
    async with agent_node(world, tmp_path, []) as lives:
        looks = take_over_of(lives, nodes := NotedNodes(world.cluster))
        for _ in range(3):
            await looks.poll()

    assert nodes.spared == [gone]


async def test_what_a_node_owes_does_not_keep_it_from_being_forgotten_but_its_turns_do(
    tmp_path: Path,
) -> None:
    """Else it would depend on the part of the sessions that is looked at, since the rest owes too."""
    world = World()
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as owes:
            models.answer(Say("hello"), Done())
            await owes.ask(await owes.session(), "hi")
        async with agent_node(world, tmp_path, [models.url]) as dies:
            models.answer(Say("Once upon"), Stall(asyncio.Event()))
            session_id = await dies.session()
            await dies.say(session_id, "tell")
            await world.seen(session_id, "text_delta")
    await world.project()
    async with agent_node(world, tmp_path, []) as lives:
        await take_over_of(lives, nodes := NotedNodes(world.cluster)).poll()

    assert nodes.spared == [{dies.id}]


async def test_a_turn_is_taken_over_that_this_versions_list_does_not_know_of_yet(
    tmp_path: Path,
) -> None:
    """After an upgrade: as far as its own list is, the session only owes what follows its first turn."""
    world = World(read_models=HalfBuiltList())
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as dies:
            models.answer(Say("hello"), Done())
            session_id = await dies.session()
            await dies.ask(session_id, "hi")
            await projected(world, Sessions())
            models.answer(Say("Once upon"), Stall(asyncio.Event()))
            await dies.say(session_id, "tell")
            await world.seen(session_id, "text_delta", 2)
        await projected(world, OldSessions())

        models.answer(Say("a time"), Done())
        async with agent_node(world, tmp_path, [models.url]) as lives:
            await lives.take_over.poll()
            await world.seen(session_id, "turn_completed", 2)


class HoleAtFirst(SwitchedLog):
    """A log that cannot be read the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.holes = 0

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        if self.holes:
            self.holes -= 1
            raise LogDamaged("1 positions are missing")
        return await super().read_all(partition, after=after, limit=limit, deltas=deltas)


async def test_a_node_takes_turns_over_whose_read_models_could_not_catch_up_when_it_started(
    tmp_path: Path,
) -> None:
    world = World(log := HoleAtFirst())
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as dies:
            session_id = await dies.session()
            models.answer(Say("Once upon"), Stall(asyncio.Event()))
            await dies.say(session_id, "tell")
            await world.seen(session_id, "text_delta")
        await world.project()
        models.answer(Say("a time"), Done())
        async with agent_node(world, tmp_path, [models.url]) as lives:
            log.holes = 1
            projector = Projector(log, world.read_models, [Sessions()], SystemClock())
            running = asyncio.create_task(lives.take_over.run(caught_up=projector.caught_up))
            resumed = asyncio.create_task(world.seen(session_id, "turn_completed"))
            ended, _ = await asyncio.wait({running, resumed}, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, resumed):
                task.cancel()

    assert (log.holes, ended) == (0, {resumed})


async def copy(world: World, origin: SessionId, session_id: SessionId) -> None:
    """Another session with the same events."""
    events = tuple(
        NewEvent(
            id=EventId(uuid(int(session_id[9:13], 16), row.seq)),
            at=row.at,
            turn_id=row.turn_id,
            subagent_id=row.subagent_id,
            event=row.envelope.event,
        )
        for row in await world.events(origin)
    )
    await world.log.append(
        Append(session_id=session_id, owner=LOCAL_OWNER, expected=0, events=events)
    )


async def projected(world: World, projection: Sessions) -> None:
    """Bring one list of sessions up to date."""
    await Projector(world.log, world.read_models, [projection], SystemClock()).caught_up()


def take_over_of(
    node: AgentNode,
    nodes: Nodes,
    *,
    left_behind: Callable[[SessionId, FollowUp], None] = lambda _, __: None,
) -> TakeOver:
    """Takes over as a node does; who is alive, these nodes say."""
    world = node.world
    return TakeOver(
        world.log,
        world.read_models,
        node.records,
        node.runs,
        nodes,
        node.tools,
        node.id,
        left_behind=left_behind,
    )
