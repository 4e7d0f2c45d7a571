"""Take over what other processes left unfinished: turns of nodes that are gone, messages nobody saw."""

import asyncio

import structlog

from navi.application.record import Record, Records
from navi.application.session_runs import SessionRuns
from navi.domain.commands import ResumeTurn
from navi.domain.errors import Fenced, NotFound, NoTurn, RuleBroken, TurnUnderway, Unavailable
from navi.domain.events import TextDelta
from navi.domain.ids import CallId, NodeId, SessionId
from navi.domain.turn import OpenModelCall, OpenTool, Turn, open_operations
from navi.ports import EventLog, Nodes, ReadModels, ToolBox
from navi.projections.sessions import Sessions

log = structlog.get_logger()

LOOK_EVERY = 2.0  # seconds; with a lease of 10 s a dead node's turns go on within 15 s


class TakeOver:
    """Looks for unfinished sessions from time to time and sees that somebody runs them."""

    def __init__(
        self,
        event_log: EventLog,
        read_models: ReadModels,
        records: Records,
        runs: SessionRuns,
        nodes: Nodes,
        tools: ToolBox,
        node: NodeId,
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._records = records
        self._runs = runs
        self._nodes = nodes
        self._tools = tools
        self._node = node

    async def run(self) -> None:
        """Look for ever; ends when it is cancelled."""
        while True:
            try:
                await self.look()
            except Unavailable as error:
                log.warning("take_over_waits", error=str(error))
            except Exception:  # a border: a follower goes on
                log.exception("take_over_broke")
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Look once.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        sessions = Sessions()
        found = await self._read_models.unfinished(sessions.name, sessions.version)
        states = {sid: sessions.decode_state(stored.state) for sid, stored in found}
        owners = {s.turn.node for s in states.values() if s.turn is not None} - {self._node}
        alive = await self._nodes.state_of(sorted(owners))
        for session_id, session in states.items():
            if session_id in self._runs.running or self._runs.draining:
                continue
            if session.turn is None or session.turn.node == self._node:
                self._runs.wake(session_id)
            elif alive.get(session.turn.node, "gone") != "alive":
                handed_over = alive.get(session.turn.node) == "left"
                await self._resume(session_id, session.turn.node, handed_over=handed_over)

    async def _resume(self, session_id: SessionId, node: NodeId, *, handed_over: bool) -> None:
        record = await self._records.open(session_id)
        turn = record.session.turn
        if turn is None or turn.node != node:
            return
        command = ResumeTurn(
            node=self._node,
            handed_over=handed_over,
            partial_texts=await self._partial_texts(record, turn),
            repeatable=self._repeatable(turn),
        )
        try:
            await record.execute(command)
        except (NoTurn, TurnUnderway, NotFound, Fenced) as refused:
            log.info("turn_not_taken_over", session_id=session_id, reason=str(refused))
            return
        except RuleBroken:
            log.exception("turn_not_taken_over", session_id=session_id)
            return
        log.info("turn_taken_over", session_id=session_id, turn_id=turn.id, from_node=node)
        self._runs.wake(session_id)

    async def _partial_texts(self, record: Record, turn: Turn) -> dict[CallId, str]:
        """What open model calls had shown: deltas are not in the fold, but they are in the log."""
        opened = {
            o.call.id: o.call.seq for o in open_operations(turn) if isinstance(o, OpenModelCall)
        }
        texts: dict[CallId, list[str]] = {call_id: [] for call_id in opened}
        if opened:
            async for rows in self._log.read(record.id, after=min(opened.values())):
                for row in rows:
                    event = row.envelope.event
                    if isinstance(event, TextDelta) and event.call_id in texts:
                        texts[event.call_id].append(event.text)
        return {call_id: "".join(pieces) for call_id, pieces in texts.items()}

    def _repeatable(self, turn: Turn) -> frozenset[CallId]:
        """The running tool calls that may simply run again."""
        running = [
            operation.call
            for operation in open_operations(turn)
            if isinstance(operation, OpenTool) and operation.started
        ]
        tools = {call.id: self._tools.find(call.name) for call in running}
        return frozenset(
            call_id
            for call_id, tool in tools.items()
            if tool is not None and tool.description.safe_to_repeat
        )
