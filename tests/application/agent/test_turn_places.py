"""Turns at once: as many as a user may have, on all nodes together; more wait, and nobody else with them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path

import pytest
from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.place_locks import InMemoryPlaceLocks
from navi.application.agent.turn_places import TurnPlaces
from navi.application.commands.manage_sessions import Received
from navi.domain.vocabulary.events import ModelWaiting, TurnCompleted
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.domain.vocabulary.principal import MAX_TURNS, NO_LIMITS, Limits
from navi.ports.event_log import ALL_TYPES, Append, Recorded, Types
from tests.support.agent_node import TIMEOUT, AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, Stall

ALICE, BOB = Owner("alice"), Owner("bob")
WAITS = ["session_created", "user_message_received"]


class SameLimits:
    """``UserLimits``: the same for everybody."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def limits_of(self, owner: Owner) -> Limits:
        del owner
        return self._limits


def at_most(turns: int) -> SameLimits:
    return SameLimits(replace(NO_LIMITS, turns=turns))


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer, None]:
    async with ModelServer() as running:
        yield running


@asynccontextmanager
async def limited(
    world: World, server: ModelServer, files: Path, *, turns: int
) -> AsyncGenerator[AgentNode, None]:
    limits = replace(NO_LIMITS, turns=turns)
    async with agent_node(world, files, [server.url], limits=limits) as node:
        yield node


async def say(node: AgentNode, owner: Owner, count: int) -> list[tuple[SessionId, Received]]:
    """Messages of an owner, each in a session of its own."""
    said: list[tuple[SessionId, Received]] = []
    for _ in range(count):
        made = await node.sessions.create(profile_id="assistant", name=None, owner=owner)
        said.append((made.id, await node.say(made.id, "hello")))
    return said


async def facts(world: World, session_id: SessionId) -> list[str]:
    return [type_ for type_ in await world.types(session_id) if type_ != "model_waiting"]


async def places_told(world: World, session_id: SessionId) -> list[int]:
    """The places for a turn that a session was told."""
    found: list[int] = []
    for row in await world.events(session_id):
        event = row.envelope.event
        if isinstance(event, ModelWaiting) and event.reason == "turns":
            found.append(event.place)
    return found


def stalled(server: ModelServer) -> asyncio.Event:
    go_on = asyncio.Event()
    server.answer(Say("first"), Stall(go_on), Done())
    return go_on


async def test_a_message_beyond_them_is_received_and_its_turn_waits_for_the_one_before(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as node:
        go_on = stalled(server)
        (one, first), (other, second) = await say(node, ALICE, 2)
        await server.chat()
        waited = await facts(world, other)

        go_on.set()
        outcomes = [await node.outcome(one, first), await node.outcome(other, second)]

        ended = await world.seen(one, "turn_completed")
        began = await world.seen(other, "turn_started")
    assert [outcome.outcome for outcome in outcomes] == ["completed", "completed"]
    assert waited == WAITS
    assert began.position > ended.position


async def test_who_sends_many_messages_delays_nobody_elses_first(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as node:
        stalled(server)
        many = await say(node, ALICE, 20)
        await server.chat()

        [(his, receipt)] = await say(node, BOB, 1)
        outcome = await node.outcome(his, receipt)

        assert outcome.outcome == "completed"
        assert {tuple(await facts(world, session_id)) for session_id, _ in many[1:]} == {
            tuple(WAITS)
        }


async def test_messages_in_one_session_do_not_go_before_those_of_others(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as node:
        go_on = stalled(server)
        [(one, _)] = await say(node, ALICE, 1)
        await server.chat()
        again = await node.say(one, "and another")
        [(other, second)] = await say(node, ALICE, 1)

        go_on.set()
        await node.outcome(one, again)
        await node.outcome(other, second)

        of_other = await world.seen(other, "turn_started")
        of_again = await world.seen(one, "turn_started", 2)
    assert of_other.position < of_again.position


async def test_the_places_are_those_of_all_nodes(server: ModelServer, tmp_path: Path) -> None:
    world = World()
    async with (
        limited(world, server, tmp_path, turns=1) as a,
        limited(world, server, tmp_path, turns=1) as b,
    ):
        go_on = stalled(server)
        [(one, first)] = await say(a, ALICE, 1)
        await server.chat()
        [(other, second)] = await say(b, ALICE, 1)
        await b.take_over.poll()
        waited = await facts(world, other)

        go_on.set()
        await a.outcome(one, first)
        while world.places:  # noqa: ASYNC110 - it is free a moment after the turn's end is logged
            await asyncio.sleep(0)
        await b.take_over.poll()
        outcome = await b.outcome(other, second)

    assert waited == WAITS
    assert outcome.outcome == "completed"


async def test_what_waits_on_a_node_that_drains_gets_its_place_on_another(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with (
        limited(world, server, tmp_path, turns=1) as a,
        limited(world, server, tmp_path, turns=1) as b,
    ):
        go_on = stalled(server)
        [(one, first)] = await say(a, ALICE, 1)
        await server.chat()
        [(other, second)] = await say(a, ALICE, 1)
        await world.seen(other, "model_waiting")

        async with asyncio.TaskGroup() as draining:
            draining.create_task(a.runs.drain(TIMEOUT))
            await asyncio.sleep(0)  # it has begun
            [(late, third)] = await say(a, ALICE, 1)
            go_on.set()
        ended = await a.outcome(one, first)
        await world.project()
        await a.take_over.poll()
        await b.take_over.poll()
        outcomes = [await b.outcome(other, second), await b.outcome(late, third)]

    assert [outcome.outcome for outcome in (ended, *outcomes)] == ["completed"] * 3


class SlowToTell(InMemoryEventLog):
    """Appends no ``model_waiting`` before it is told to.

    Attributes:
        asked: set when one is to be appended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if any(isinstance(new.event, ModelWaiting) for new in batch.events):
            self.asked.set()
            await self.go_on.wait()
        return await super().append(batch)


async def test_a_place_that_was_given_right_before_a_node_drains_is_given_back(
    server: ModelServer, tmp_path: Path
) -> None:
    log = SlowToTell()
    world = World(log)
    async with limited(world, server, tmp_path, turns=1) as node:
        go_on = stalled(server)
        [(one, first)] = await say(node, ALICE, 1)
        await server.chat()
        await say(node, ALICE, 1)
        await log.asked.wait()  # its task is not over yet
        go_on.set()
        await node.outcome(one, first)
        await node.runs.ended(one)  # and has left its place to the other

        async with asyncio.TaskGroup() as draining:
            draining.create_task(node.runs.drain(TIMEOUT))
            await asyncio.sleep(0)  # it has begun
            log.go_on.set()

        assert world.places == set()


class SlowToReadOn(InMemoryEventLog):
    """A session's task whose turn has ended reads on when it is told to.

    Attributes:
        asked: set when one wants to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self._slow = set[str]()

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        rows = await super().append(batch)
        if any(isinstance(new.event, TurnCompleted) for new in batch.events):
            self._slow.add(f"session {batch.session_id}")
        return rows

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        task = asyncio.current_task()
        if task is not None and task.get_name() in self._slow:
            self.asked.set()
            await self.go_on.wait()
        async for rows in super().read(session_id, after=after, until=until, types=types):
            yield rows


async def most_at_once(world: World, *sessions: SessionId) -> int:
    """How many turns of some sessions were open at once."""
    rows = [row for session_id in sessions for row in await world.events(session_id)]
    ordered = [row.type for row in sorted(rows, key=lambda row: row.position)]
    steps = [(kind == "turn_started") - (kind == "turn_completed") for kind in ordered]
    return max(accumulate(steps))


async def test_a_task_that_ends_leaves_the_place_to_the_next_message_of_its_session(
    server: ModelServer, tmp_path: Path
) -> None:
    log = SlowToReadOn()
    world = World(log)
    async with limited(world, server, tmp_path, turns=1) as node:
        [(one, first)] = await say(node, ALICE, 1)
        await node.outcome(one, first)
        await log.asked.wait()
        receiving = asyncio.ensure_future(node.say(one, "and another"))
        while not world.places:  # noqa: ASYNC110 - it is taken right before the message is appended
            await asyncio.sleep(0)
        [(other, second)] = await say(node, ALICE, 1)
        go_on = stalled(server)

        log.go_on.set()
        again = await receiving
        await world.seen(one, "turn_started", 2)
        go_on.set()
        outcomes = [await node.outcome(one, again), await node.outcome(other, second)]

    assert [outcome.outcome for outcome in outcomes] == ["completed"] * 2
    assert await most_at_once(world, one, other) == 1
    assert world.places == set()


async def test_a_stop_withdraws_the_message_whose_turn_waits_on_whichever_node(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with (
        limited(world, server, tmp_path, turns=1) as a,
        limited(world, server, tmp_path, turns=1) as b,
    ):
        go_on = stalled(server)
        [(one, first)] = await say(a, ALICE, 1)
        await server.chat()
        (other, second), (third, receipt) = await say(a, ALICE, 2)

        stopped = [await b.sessions.stop(other, by="user"), await b.sessions.stop(other, by="user")]
        outcome = await a.outcome(other, second)
        go_on.set()
        ended = [await a.outcome(one, first), await a.outcome(third, receipt)]
        again = await a.outcome(other, await a.say(other, "once more"))

        types = await facts(world, other)
    assert stopped == [True, False]
    assert outcome.outcome == "stopped"
    assert [each.outcome for each in (*ended, again)] == ["completed"] * 3
    assert types[:4] == [*WAITS, "stop_requested", "message_withdrawn"]
    assert types.count("turn_started") == 1


async def test_a_message_whose_node_was_killed_while_it_waited_can_be_stopped(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as dead:
        stalled(server)
        await say(dead, ALICE, 1)
        await server.chat()
        [(other, receipt)] = await say(dead, ALICE, 1)

    async with limited(world, server, tmp_path, turns=1) as node:
        assert await node.sessions.stop(other, by="user")
        outcome = await node.outcome(other, receipt)
        await node.take_over.poll()

    assert outcome.outcome == "stopped"
    assert await facts(world, other) == [*WAITS, "stop_requested", "message_withdrawn"]


async def test_whoever_waits_is_told_the_place_and_that_it_changes(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as node:
        go_on = stalled(server)
        [(one, first)] = await say(node, ALICE, 1)
        await server.chat()
        (second, its), (third, last) = await say(node, ALICE, 2)
        await world.seen(second, "model_waiting")
        await world.seen(third, "model_waiting")

        stalls = stalled(server)
        go_on.set()
        await node.outcome(one, first)
        await world.seen(third, "model_waiting", 2)
        stalls.set()
        await node.outcome(second, its)
        await node.outcome(third, last)

        told = {name: await places_told(world, id_) for name, id_ in (("2", second), ("3", third))}
    assert told == {"2": [1], "3": [2, 1]}


async def test_a_message_that_is_refused_leaves_its_place(
    server: ModelServer, tmp_path: Path
) -> None:
    world = World()
    async with limited(world, server, tmp_path, turns=1) as node:
        made = await node.sessions.create(profile_id="assistant", name=None, owner=ALICE)
        await node.outcome(made.id, await node.say(made.id, "hello", message_id="m"))

        again = await node.say(made.id, "hello", message_id="m")
        [(other, receipt)] = await say(node, ALICE, 1)
        outcome = await node.outcome(other, receipt)

    assert again.repeated
    assert outcome.outcome == "completed"


async def test_a_limit_that_was_raised_is_seen_by_those_who_wait() -> None:
    class Raised:
        limits = replace(NO_LIMITS, turns=1)

        async def limits_of(self, owner: Owner) -> Limits:
            del owner
            return self.limits

    limits, given = Raised(), list[SessionId]()
    places = TurnPlaces(limits, InMemoryPlaceLocks())
    places.given = given.append
    sessions = [SessionId(name) for name in "abc"]
    first = [await places.take(ALICE, session_id) for session_id in sessions]

    limits.limits = replace(NO_LIMITS, turns=2)
    await places.look()

    assert (first, given) == ([True, False, False], ["b"])
    assert [places.waits(session_id) for session_id in sessions] == [False, False, True]


async def test_a_limit_beyond_all_sense_is_no_list_to_be_made() -> None:
    """One that an earlier navi has taken: as many numbers are asked for as there may be turns."""

    class Counting(InMemoryPlaceLocks):
        most = 0

        async def lock(self, owner: Owner, numbers: Sequence[int]) -> int | None:
            self.most = max(self.most, len(numbers))
            return await super().lock(owner, numbers)

    locks = Counting()
    places = TurnPlaces(at_most(10**7), locks)

    assert await places.take(ALICE, SessionId("a"))
    assert locks.most == MAX_TURNS


async def test_what_goes_on_does_so_without_a_place_as_well() -> None:
    places = TurnPlaces(at_most(1), InMemoryPlaceLocks())
    await places.take(ALICE, SessionId("a"))

    await places.take_if_free(ALICE, SessionId("b"))

    assert not places.waits(SessionId("b"))


class SlowToUnlock(InMemoryPlaceLocks):
    """Gives places back when it is told to, each in its turn, as a database that is slow.

    Attributes:
        asked: released for each that is to be given back.
        go_on: to be released for each that may be.
    """

    def __init__(self, taken: set[tuple[Owner, int]]) -> None:
        super().__init__(taken)
        self.asked = asyncio.Semaphore(0)
        self.go_on = asyncio.Semaphore(0)

    async def unlock(self, owner: Owner, number: int) -> None:
        self.asked.release()
        await self.go_on.acquire()
        await super().unlock(owner, number)


async def test_a_place_that_was_taken_while_others_left_is_given_back() -> None:
    taken = set[tuple[Owner, int]]()
    locks = SlowToUnlock(taken)
    places = TurnPlaces(at_most(3), locks)
    one, other, next_one = SessionId("a"), SessionId("b"), SessionId("c")
    for session_id in (one, other):
        await places.take(ALICE, session_id)

    async with asyncio.TaskGroup() as leaving, asyncio.timeout(TIMEOUT):
        first = leaving.create_task(places.leave(one))
        leaving.create_task(places.leave(other))
        for _ in range(2):
            await locks.asked.acquire()
        locks.go_on.release()
        await first
        await places.take(ALICE, next_one)
        locks.go_on.release()
    locks.go_on.release()
    await places.leave(next_one)

    assert taken == set()
