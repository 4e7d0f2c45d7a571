"""Take over unfinished sessions: turns of dead nodes, messages that no turn was opened for."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

import structlog

from navi.application.agent.session_runs import SessionRuns
from navi.application.reading.catalogue import owing_sessions, session_now, unfinished_sessions
from navi.application.session.partial_replies import partial_replies
from navi.application.session.record import Records
from navi.domain.session.commands import AnswerAsides, ResumeTurn
from navi.domain.session.session import FollowUp, Session, Wait, next_step
from navi.domain.session.turn import OpenTool, Turn, open_operations
from navi.domain.vocabulary.errors import (
    ConcurrentAppend,
    Fenced,
    NotFound,
    NoTurn,
    RuleBroken,
    TurnUnderway,
    Unavailable,
)
from navi.domain.vocabulary.events import ToolCall
from navi.domain.vocabulary.ids import CallId, NodeId, SessionId
from navi.log_error import log_error
from navi.ports.log_partitions import PartitionedLog
from navi.ports.nodes import Nodes, NodeState
from navi.ports.read_models import ReadModels
from navi.ports.tools import ToolBox

T = TypeVar("T")

log = structlog.get_logger()

CATCH_UP_SECONDS = 10.0  # what a starting node waits for read models before it looks for open turns
LOOK_EVERY = 2.0  # seconds; with a lease of 10 s a dead node's turns go on within 15 s
LOOK_AGAIN = 0.25  # seconds, while of some node it is not certain whether it is gone
FORGET_EVERY = 300  # looks: processes that ended are forgotten every ten minutes, and at the start
# Sessions that await a person, or what follows a turn: so many are looked at in a look.
OWING_AT_ONCE = 50
MAX_TRIES = 10  # a look, against somebody who appends all the time; then the next look tries


class TakeOver:
    """Polls for unfinished sessions and resumes those whose node is gone."""

    def __init__(
        self,
        event_log: PartitionedLog,
        read_models: ReadModels,
        records: Records,
        runs: SessionRuns,
        nodes: Nodes,
        tools: ToolBox,
        node: NodeId,
        *,
        left_behind: Callable[[SessionId, FollowUp], None],
    ) -> None:
        """Nothing is looked at yet.

        Args:
            left_behind: sees to what follows a turn, where nobody who is alive does.
        """
        self._log = event_log
        self._read_models = read_models
        self._records = records
        self._runs = runs
        self._nodes = nodes
        self._tools = tools
        self._node = node
        self._forget_in = 0  # looks
        self._at_work: set[NodeId] = set()  # with open turns and calls, since the first part
        self._owing_after: SessionId | None = None
        self._left_behind = left_behind

    async def run(self, *, caught_up: Callable[[], Awaitable[None]]) -> NoReturn:
        """Poll until cancelled, once the read models have caught up or were given time to.

        Args:
            caught_up: catches them up with the log; the looks are right without, and slower.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await caught_up()
        except (TimeoutError, Unavailable) as error:
            log.warning("read_models_behind", error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a border: a follower goes on
            log_error(log, "read_models_behind", error)
        while True:
            certain = True
            try:
                certain = await self.poll()
            except Unavailable as error:
                log.warning("take_over_waits", error=str(error))
            except Exception as error:  # noqa: BLE001 - a border: a follower goes on
                log_error(log, "take_over_broke", error)
            await asyncio.sleep(LOOK_EVERY if certain else LOOK_AGAIN)

    async def poll(self) -> bool:
        """Poll once; whether the state of every node is certain.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        await self._runs.places.look()
        states, self._owing_after = await self._next_states()
        # Whether a node left or is gone makes a difference to its turns, not to what it owes.
        self._at_work |= _nodes(session for session in states.values() if session.under_way)
        node_states = await self._nodes.state_of(sorted(_nodes(states.values()) - {self._node}))
        self._forget_in -= 1
        if self._owing_after is None:  # all parts were looked at
            if self._forget_in < 0:
                await self._nodes.forget_ended(but=self._at_work)
                self._forget_in = FORGET_EVERY - 1
            self._at_work = set()
        for session_id, session in states.items():
            await self._alone(session_id, self._look_after(session_id, session, node_states))
        return "silent" not in node_states.values()

    async def _next_states(self) -> tuple[Mapping[SessionId, Session], SessionId | None]:
        """The sessions in which somebody has to be at work, and the next of those that owe.

        These await a person, or what follows a turn: a part of them at a time, from the first on again after
        the last.

        Returns:
            Also the session after which others of these come; None where it were the last ones.
        """
        unfinished = await unfinished_sessions(self._log, self._read_models)
        owing, owing_after = await owing_sessions(
            self._read_models, after=self._owing_after, limit=OWING_AT_ONCE
        )
        # Where this version's own list is not complete, the log is ahead of what is in there.
        states = {**owing.sessions, **unfinished.sessions}
        for session_id in dict.fromkeys([*unfinished.unread, *owing.unread]):
            states.pop(session_id, None)
            reading = session_now(self._log, self._read_models, session_id)
            session = await self._alone(session_id, reading)
            if session is not None and session.unfinished:
                states[session_id] = session
        return states, owing_after

    async def _alone(self, session_id: SessionId, work: Awaitable[T]) -> T | None:
        """What comes of work on one session, whose trouble is not another's; None where it failed.

        Raises:
            LogUnavailable: Postgres does not answer, whichever session it is asked about.
        """
        bound = log.bind(session_id=session_id)
        try:
            return await work
        except Unavailable as error:
            await self._nodes.state_of(())
            bound.warning("session_not_taken_over", reason=str(error))
        except Exception as error:  # noqa: BLE001 - a border: one session's trouble is not another's
            log_error(bound, "session_not_taken_over", error)
        return None

    async def _look_after(
        self, session_id: SessionId, session: Session, node_states: Mapping[NodeId, NodeState]
    ) -> None:
        """Go on with a session where nobody who is alive does.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        gone = {node for node, state in node_states.items() if state in ("gone", "left")}
        if lost := _aside_nodes(session) & gone:
            record = await self._records.open(session_id)
            await record.execute(AnswerAsides(nodes=lost))
        if session_id in self._runs.running or self._runs.draining:
            return
        follow_up = session.follow_up
        if follow_up is not None and session.turn is None and follow_up.node in {self._node, *gone}:
            self._left_behind(session_id, follow_up)
        if isinstance(next_step(session), Wait):
            return  # for a person: no process is needed, and none has died over it
        if session.turn is None and self._runs.places.waits(session_id):
            return
        if session.turn is None or session.turn.node == self._node:
            self._runs.wake(session_id)
        elif session.turn.node in gone and session.turn.parked:
            self._runs.wake(session_id)  # which takes it up
        elif session.turn.node in gone and not self._may_soon_repeat(session.turn):
            handed_over = node_states[session.turn.node] == "left"
            await self._resume(session_id, session.turn.node, handed_over=handed_over)

    async def _resume(self, session_id: SessionId, node: NodeId, *, handed_over: bool) -> None:
        """Take over the turn, unless it has ended or another node was first."""
        record = await self._records.open(session_id)
        for _ in range(MAX_TRIES):
            seen, turn = record.seq, record.session.turn
            if turn is None or turn.node != node:
                return
            command = ResumeTurn(
                node=self._node,
                handed_over=handed_over,
                partial_replies=await partial_replies(self._log, record.id, turn),
                repeatable=self._repeatable(turn),
            )
            try:
                await record.try_once(command, seen=seen)
            except ConcurrentAppend:
                continue  # whose the turn is, and what it has shown, may be different now
            except (NoTurn, TurnUnderway, NotFound, Fenced) as refused:
                log.info("turn_not_taken_over", session_id=session_id, reason=str(refused))
            except RuleBroken as error:
                log_error(log, "turn_not_taken_over", error, session_id=session_id)
            else:
                log.info("turn_taken_over", session_id=session_id, turn_id=turn.id, from_node=node)
                self._runs.wake(session_id)
            return

    def _may_soon_repeat(self, turn: Turn) -> bool:
        """Whether the tool of a running call may soon be there: the next look finds what it is then."""
        return any(self._tools.starting(call.name) for call in _running(turn))

    def _repeatable(self, turn: Turn) -> frozenset[CallId]:
        """The running tool calls that are safe to repeat."""
        tools = {call.id: self._tools.find(call.name) for call in _running(turn)}
        return frozenset(
            call_id
            for call_id, tool in tools.items()
            if tool is not None and tool.description.safe_to_repeat
        )


def _running(turn: Turn) -> list[ToolCall]:
    """The tool calls that have started and have no result."""
    return [
        operation.call
        for operation in open_operations(turn)
        if isinstance(operation, OpenTool) and operation.started
    ]


def _nodes(sessions: Iterable[Session]) -> set[NodeId]:
    """The nodes with an open turn or call in some sessions, or that owe what follows a turn."""
    nodes = set[NodeId]()
    for session in sessions:
        nodes |= _aside_nodes(session)
        if session.turn is not None:
            nodes.add(session.turn.node)
        if session.follow_up is not None:
            nodes.add(session.follow_up.node)
    return nodes


def _aside_nodes(session: Session) -> frozenset[NodeId]:
    return frozenset(call.node for call in session.asides if call.node is not None)
