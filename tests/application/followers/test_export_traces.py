"""Each turn's trace is sent once it has ended: once, whatever becomes of navi and of who takes it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.trace_checkpoint import InMemoryTraceCheckpoint
from navi.application.followers.export_traces import ExportDelays, ExportTraces
from navi.application.reading.trace_session import trace_session
from navi.domain.reading.spans import Span
from navi.domain.vocabulary.ids import SessionId
from navi.ports.traces import Delivery
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.spans import broken_rules

PACE = ExportDelays(rest=0.001, look=0.02, first_retry=0.01, last_retry=0.02)
SOON = 60.0  # seconds: a deadline, not a wait


class Collector:
    """Takes spans, or does not."""

    def __init__(self) -> None:
        self.delivery: Delivery = "taken"
        self.sent: list[tuple[Span, ...]] = []
        self.tries = 0
        self.stuck: asyncio.Event | None = None  # what it waits for before it answers
        self._told = asyncio.Condition()

    async def export(self, spans: Sequence[Span]) -> Delivery:
        async with self._told:
            self.tries += 1
            if self.delivery == "taken":
                self.sent.append(tuple(spans))
            self._told.notify_all()
        if self.stuck is not None:
            await self.stuck.wait()
        return self.delivery

    @property
    def roots(self) -> list[str]:
        """The turns that were taken, by id, in order."""
        return [
            str(span.attributes["navi.turn_id"])
            for batch in self.sent
            for span in batch
            if "navi.turn_id" in span.attributes
        ]

    async def until(self, *, turns: int = 0, tries: int = 0) -> None:
        async with asyncio.timeout(SOON), self._told:
            await self._told.wait_for(lambda: len(self.roots) >= turns and self.tries >= tries)


class WatchedCheckpoint(InMemoryTraceCheckpoint):
    """Tells when it was moved."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = asyncio.Condition()
        self._at = -1

    async def move(self, partition: int, *, after: int | None, position: int) -> bool:
        moved = await super().move(partition, after=after, position=position)
        async with self._moved:
            self._at = max(self._at, position)
            self._moved.notify_all()
        return moved

    async def until(self, position: int) -> None:
        """Wait until it is there or beyond."""
        async with asyncio.timeout(SOON), self._moved:
            await self._moved.wait_for(lambda: self._at >= position)


class Door:
    """Lets one through at a time; each that wants through has a ``Key``."""

    def __init__(self) -> None:
        self.holder: object = None


class Key:
    """``LeaderLock`` of one process."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def acquire(self) -> bool:
        if self._door.holder is None:
            self._door.holder = self
        return self._door.holder is self

    def release(self) -> None:
        if self._door.holder is self:
            self._door.holder = None


class Service:
    """A node, and the processes that send its traces."""

    def __init__(self, world: World, node: AgentNode) -> None:
        self.world = world
        self.node = node
        self.checkpoint = WatchedCheckpoint()
        self.collector = Collector()
        self.door = Door()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[asyncio.Task[None], None]:
        """A process that sends, until the block ends: killed."""
        exporter = ExportTraces(
            self.world.log, self.checkpoint, self.collector, Key(self.door), PACE
        )
        task = asyncio.create_task(exporter.run())
        try:
            await self.checkpoint.until(0)
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def turn(self, session_id: SessionId, words: str = "!say hello") -> str:
        """The id of a turn that has ended."""
        outcome = await self.node.ask(session_id, words)
        return str(outcome.turn_id)

    async def caught_up(self) -> None:
        """Wait until the checkpoint is at the end of the log."""
        head = (await self.world.log.read_all(0, after=0, limit=1)).head
        await self.checkpoint.until(head)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncGenerator[Service, None]:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        yield Service(world, node)


async def test_each_turn_is_sent_once_after_its_end(service: Service) -> None:
    session_id = await service.node.session()
    before = await service.turn(session_id)

    async with service.sending():
        turns = [await service.turn(session_id) for _ in range(3)]
        await service.collector.until(turns=3)
        await service.caught_up()

    assert service.collector.roots == turns
    assert before not in turns
    spans = [span for batch in service.collector.sent for span in batch]
    assert broken_rules(spans) == []
    printed = await trace_session(service.world.log, session_id)
    assert all(span in printed for span in spans)


async def test_a_turn_is_not_sent_once_more_by_a_fork_inside_it(service: Service) -> None:
    session_id = await service.node.session()
    async with service.sending():
        turn = await service.turn(session_id, "!tool todo {}")
        inside = await service.world.seen(session_id, "tool_finished")

        fork = (await service.node.fork_session(session_id, at=inside.seq)).session
        after = await service.turn(fork.id)
        await service.caught_up()

    assert service.collector.roots == [turn, after]
    printed = await trace_session(service.world.log, fork.id)
    roots = [span.attributes["navi.turn_id"] for span in printed if span.parent_id is None]
    assert roots == [after]


async def test_turns_that_ended_while_nobody_sent_are_sent_by_the_next_process(
    service: Service,
) -> None:
    session_id = await service.node.session()
    async with service.sending():
        turns = [await service.turn(session_id)]
        await service.caught_up()
    turns.append(await service.turn(session_id))

    async with service.sending():
        await service.caught_up()

    assert service.collector.roots == turns


async def test_what_was_sent_in_the_moment_before_a_crash_is_sent_again_with_the_same_ids(
    service: Service,
) -> None:
    session_id = await service.node.session()
    service.collector.stuck = asyncio.Event()
    async with service.sending():
        await service.turn(session_id)
        await service.collector.until(turns=1)
    service.collector.stuck = None

    async with service.sending():
        await service.collector.until(turns=2)

    first, again = service.collector.sent
    assert first == again


async def test_of_a_collector_that_is_away_nothing_is_lost_and_it_is_told_once(
    service: Service,
) -> None:
    session_id = await service.node.session()
    service.collector.delivery = "away"
    with capture_logs() as logs:
        async with service.sending():
            turns = [await service.turn(session_id) for _ in range(2)]
            await service.collector.until(tries=4)
            service.collector.delivery = "taken"
            await service.collector.until(turns=2)
            await service.caught_up()

    assert service.collector.roots == turns
    told = [entry["event"] for entry in logs if entry["event"].startswith("traces")]
    assert told == ["traces_not_sent", "traces_recovered"]


async def test_a_turn_does_not_wait_for_a_collector_that_hangs(service: Service) -> None:
    session_id = await service.node.session()
    service.collector.stuck = asyncio.Event()
    async with service.sending():
        await service.turn(session_id)
        await service.collector.until(tries=1)

        assert await service.turn(session_id)
        assert service.collector.tries == 1


async def test_what_is_refused_is_passed_over(service: Service) -> None:
    session_id = await service.node.session()
    service.collector.delivery = "refused"
    with capture_logs() as logs:
        async with service.sending():
            await service.turn(session_id)
            await service.turn(session_id)
            await service.caught_up()
            service.collector.delivery = "taken"
            last = await service.turn(session_id)
            await service.collector.until(turns=1)

    assert service.collector.roots == [last]
    assert [e["event"] for e in logs].count("traces_not_sent") == 1


async def test_of_two_processes_one_sends_and_the_other_goes_on(service: Service) -> None:
    session_id = await service.node.session()
    async with service.sending() as first, service.sending():
        turns = [await service.turn(session_id)]
        await service.caught_up()
        first.cancel()
        await asyncio.wait({first})
        turns.append(await service.turn(session_id))
        await service.caught_up()

    assert service.collector.roots == turns


async def test_every_partition_of_the_log_is_followed(tmp_path: Path) -> None:
    world = World(InMemoryEventLog(partitions=2))
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        service = Service(world, node)
        async with service.sending():
            turns: list[str] = []
            while not all([(await world.log.read_all(n, after=0, limit=1)).head for n in (0, 1)]):
                turns.append(await service.turn(await node.session()))
            await service.collector.until(turns=len(turns))

    assert sorted(service.collector.roots) == sorted(turns)
