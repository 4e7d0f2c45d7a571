"""The nodes of a recording, composed of the application's own parts."""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from navi.application.agent.after_turn.after_turn import AfterTurn
from navi.application.agent.after_turn.compress_after import CompressAfter
from navi.application.agent.after_turn.name_session import NameSession
from navi.application.agent.after_turn.remember import Remember
from navi.application.agent.agent_actions import SUBAGENT_SECONDS
from navi.application.agent.running_turn import Agent
from navi.application.agent.session_runs import SessionRuns
from navi.application.agent.take_over import TakeOver
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.followers.project import Projector
from navi.application.rerun.gate import Gate, GatedRecords
from navi.application.rerun.recorded_model import MaskedAlready, RecordedAnswers, RecordedAsk
from navi.application.rerun.recorded_profile import (
    BesideProfiles,
    CompressBeside,
    OutsideProfiles,
    RecordedCompress,
    RecordedProfiles,
)
from navi.application.rerun.recorded_tools import (
    TOOL_CALL,
    AsRecorded,
    BesideTools,
    NoFiles,
    RecordedRunTool,
    RecordedTools,
)
from navi.domain.events import SubagentFinished, ToolFinished
from navi.domain.ids import NodeId, SessionId
from navi.domain.recording import Recording
from navi.ports.clock import Clock, Ids
from navi.ports.language_model import Renderers
from navi.ports.log_partitions import PartitionedLog
from navi.ports.memories import Memories
from navi.ports.nodes import NodeState
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.text_store import TextStore
from navi.ports.tools import Tool
from navi.projections.sessions import Sessions

_TIME_WAS_UP = re.compile(r"\AIt was not done after ([0-9.e+]+) s\.\Z")


class Parts(Struct, frozen=True, kw_only=True):
    """The ports of a rerun.

    Attributes:
        recalled: finds the memories that turns were told of; ``known`` those that followers knew.
        spawn: the tool that starts subagents.
    """

    event_log: PartitionedLog
    read_models: ReadModelBackend
    texts: TextStore
    recalled: Memories
    known: Memories
    renderers: Renderers
    spawn: Tool
    clock: Clock
    ids: Ids


class RecordedNodes:
    """The port ``Nodes``: the rerun decides which nodes are alive."""

    def __init__(self) -> None:
        self.states: dict[NodeId, NodeState] = {}

    async def join(self, node_id: NodeId) -> None:
        self.states[node_id] = "alive"

    async def leave(self) -> None:
        """Nobody leaves by itself."""

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        return {node_id: self.states.get(node_id, "gone") for node_id in node_ids}

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        """Nothing is forgotten."""


class _Repeatable:
    """The port ``ToolBox`` for a take-over: which tools ran again then."""

    def __init__(self, gate: Gate, tools: RecordedTools) -> None:
        self._gate = gate
        self._tools = tools

    def all(self) -> tuple[Tool, ...]:
        return ()

    def find(self, name: str) -> Tool | None:
        """The tool, where it was safe to run it again."""
        coming = self._gate.recording.batch(min(self._gate.seq + 1, self._gate.recording.last))
        for envelope in coming:
            if isinstance(envelope.event, ToolFinished) and envelope.event.name == name:
                return None
        return self._tools.safe(name)


class _SubagentIds:
    """The port ``Ids`` of an agent: a subagent is called as it was."""

    def __init__(self, gate: Gate, others: Ids) -> None:
        self._gate = gate
        self._others = others

    def uuid(self) -> str:
        return self._others.uuid()

    def hex12(self) -> str:
        call = TOOL_CALL.get()
        subagent_id = None if call is None else self._gate.recording.subagent_of(call.id)
        return (
            self._others.hex12() if subagent_id is None else subagent_id.removeprefix("subagent_")
        )


class RerunNode:
    """One process."""

    def __init__(self, node_id: NodeId, gate: Gate, parts: Parts, nodes: RecordedNodes) -> None:
        self.id = node_id
        secrets = MaskedAlready()
        log, ids, clock = parts.event_log, parts.ids, parts.clock
        records = GatedRecords(gate, log, parts.read_models, clock, ids, node_id, secrets)
        ask = RecordedAsk(
            RecordedAnswers(
                gate=gate, renderers=parts.renderers, texts=parts.texts, clock=clock, ids=ids
            )
        )
        outside, tools = OutsideProfiles(gate), RecordedTools(gate, parts.spawn)
        beside, profiles, offered = (
            CompressBeside(ask, gate),
            BesideProfiles(gate),
            BesideTools(gate),
        )
        agent = Agent(
            node=node_id,
            ids=_SubagentIds(gate, ids),
            clock=clock,
            profiles=RecordedProfiles(gate),
            tools=tools,
            ask_model=ask,
            run_tool=RecordedRunTool(tools, NoFiles(), AsRecorded(), clock),
            compress=RecordedCompress(ask, gate),
            memories=parts.recalled,
            subagent_seconds=_subagent_seconds(gate.recording),
        )
        self.after_turn = AfterTurn(
            records,
            (
                CompressAfter(beside, profiles, offered, node_id),
                NameSession(ask, profiles, offered, node_id),
                Remember(ask, parts.known, profiles, offered, ids, node_id),
            ),
        )
        self.records = records
        self.runs = SessionRuns(log, records, agent, completed=_nobody)
        self.sessions = ManageSessions(log, records, self.runs, outside, ids, node_id, secrets)
        self.contexts = ManageContext(records, beside, profiles, offered, node_id)
        self.take_over = TakeOver(
            log,
            parts.read_models,
            records,
            self.runs,
            nodes,
            _Repeatable(gate, tools),
            node_id,
            left_behind=_nobody,
        )
        self._run_tool = agent.run_tool
        self._gate = gate
        self._projector = Projector(log, parts.read_models, (Sessions(),), clock)
        self._following = asyncio.create_task(self.after_turn.run())

    async def poll(self) -> None:
        """Take over unfinished sessions."""
        await self._projector.caught_up()
        await self.take_over.poll()

    async def end(self) -> None:
        """Die, as a killed process does."""
        await self.runs.drain(0)
        self._following.cancel()
        await asyncio.wait({self._following})
        await self._run_tool.close()


def _nobody(session_id: SessionId, follow_up: object = None) -> None:
    """Nothing: the rerun itself starts what follows a turn."""


def _subagent_seconds(recording: Recording) -> float:
    """The time limit of subagents, inferred from one that ran out of time."""
    for envelope in recording.envelopes:
        if isinstance(envelope.event, SubagentFinished):
            found = _TIME_WAS_UP.match(envelope.event.result)
            if found is not None:
                return float(found[1])
    return SUBAGENT_SECONDS
