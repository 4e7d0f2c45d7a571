"""What follows turns outlasts Postgres and damage: what was kept from being done is done later."""

import asyncio
from collections.abc import Awaitable, Callable

from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import RandomIds, SystemClock
from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.application.agent.after_turn.after_turn import LATER_SECONDS, AfterTurn
from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import (
    Completed,
    CreateSession,
    EndTurn,
    ReceiveMessage,
    Runner,
    TurnStart,
)
from navi.domain.vocabulary.errors import LogDamaged, LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER, MessageId, NodeId, SessionId, TurnId
from tests.application.sample import session, uuid
from tests.support.damaged_log import DamagedLog

NODE = NodeId(uuid(9))
A, B = session(1), session(2)
SETTLED = 1.0  # second: all that can be done in it is done


class Scene:
    """Two sessions whose turns have completed, and what follows them."""

    def __init__(self) -> None:
        self.log = DamagedLog(LogDamaged("an event is missing"))
        self.away = 0  # how often Postgres does not answer what follows a turn
        self.done: list[SessionId] = []
        self._records = Records(
            self.log, InMemoryReadModels(), SystemClock(), RandomIds(), NODE, Secrets()
        )
        self.after_turn = AfterTurn(self._records, (self._follow,))

    async def have_turn(self, session_id: SessionId) -> None:
        """A turn that has completed on this node."""
        turn_id = TurnId(uuid(3))
        record = await self._records.open(session_id)
        await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
        start = TurnStart(turn_id=turn_id, node=NODE, planning=False)
        await record.execute(
            ReceiveMessage(message_id=MessageId("m"), content="hello", start=start)
        )
        runner = Runner(turn_id=turn_id, attempt=1)
        ending = Completed(limit_reached=False)
        await record.execute(EndTurn(runner=runner, ending=ending, partial_replies={}))

    async def look(self, session_id: SessionId) -> None:
        """Find what is left of a session, as a node does now and then."""
        record = self._records.kept(session_id)
        assert record is not None
        follow_up = record.session.follow_up
        assert follow_up is not None
        self.after_turn.left_behind(session_id, follow_up)
        await asyncio.sleep(SETTLED)

    async def _follow(self, record: Record, halt: asyncio.Event) -> None:
        del halt
        if self.away:
            self.away -= 1
            raise LogUnavailable("Postgres does not answer")
        self.done.append(record.id)


def play(act: Callable[[Scene], Awaitable[None]]) -> None:
    """Let it happen without waiting."""

    async def played() -> None:
        scene = Scene()
        for session_id in (A, B):
            await scene.have_turn(session_id)
        running = asyncio.create_task(scene.after_turn.run())
        try:
            await act(scene)
        finally:
            running.cancel()
            await asyncio.wait({running})

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(played())


def test_an_outage_does_not_end_what_follows_the_turns_of_a_node() -> None:
    async def act(scene: Scene) -> None:
        scene.log.reachable = False
        scene.after_turn.completed(A)
        await asyncio.sleep(SETTLED)

        scene.log.reachable = True
        scene.after_turn.completed(B)
        await asyncio.sleep(SETTLED)
        await scene.look(A)

        assert scene.done == [B, A]

    play(act)


def test_what_an_outage_has_cut_off_is_tried_again_later() -> None:
    async def act(scene: Scene) -> None:
        scene.away = 1
        scene.after_turn.completed(A)
        await asyncio.sleep(SETTLED)
        await scene.look(A)
        assert scene.done == []

        await asyncio.sleep(LATER_SECONDS)
        await scene.look(A)
        assert scene.done == [A]

    play(act)


def test_a_session_that_cannot_be_read_is_not_tried_at_each_look() -> None:
    async def act(scene: Scene) -> None:
        scene.log.damaged = {A}
        for _ in range(3):
            await scene.look(A)
        assert scene.log.tried == [A]

        scene.log.damaged = set()
        await asyncio.sleep(LATER_SECONDS)
        await scene.look(A)
        assert scene.done == [A]

    play(act)
