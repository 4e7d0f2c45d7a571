"""The nodes of a recording, composed of the application's own parts."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from navi.application.agent.actor_profile import ServedProfiles
from navi.application.agent.agent_actions import seconds_it_had
from navi.application.agent.budgets import Unbounded
from navi.application.agent.show_picture import ShowPicture
from navi.application.agent.turn_places import TurnPlaces
from navi.application.composition.compose_agent import AgentParts, Surroundings, compose_agent
from navi.application.followers.project import Projector
from navi.application.rerun.gate import Gate, GatedRecords
from navi.application.rerun.recorded_compress import CompressBeside, RecordedCompress, settings_of
from navi.application.rerun.recorded_model import MaskedAlready, RecordedAnswers, RecordedAsk
from navi.application.rerun.recorded_profile import (
    BesideProfiles,
    OutsideProfiles,
    RecordedProfiles,
)
from navi.application.rerun.recorded_tools import (
    TOOL_CALL,
    AsRecorded,
    BesideTools,
    NoFiles,
    NothingShown,
    RecordedPolicy,
    RecordedRunTool,
    RecordedTools,
    nobodys_user,
)
from navi.domain.reading.recording import Recording
from navi.domain.session.turn import SUBAGENT_SECONDS
from navi.domain.vocabulary.events import SubagentFinished
from navi.domain.vocabulary.ids import NodeId, Owner
from navi.domain.vocabulary.principal import NO_LIMITS, Limits
from navi.ports.clock import Clock, Ids
from navi.ports.language_model import Renderers
from navi.ports.log_partitions import PartitionedLog
from navi.ports.memories import Memories
from navi.ports.nodes import NodeState
from navi.ports.profiles import Profiles
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.text_store import TextStore
from navi.ports.tools import Tool
from navi.projections.sessions import Sessions


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
        """Do nothing: the recording says which nodes leave."""

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        return {node_id: self.states.get(node_id, "gone") for node_id in node_ids}

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        """Nothing is forgotten."""


class NoLimits:
    """The ports ``UserLimits`` and ``PlaceLocks``: how long a message waited stands in the recording."""

    async def limits_of(self, owner: Owner) -> Limits:
        del owner
        return NO_LIMITS

    async def lock(self, owner: Owner, numbers: Sequence[int]) -> int | None:
        """Nobody asks for a place."""

    async def unlock(self, owner: Owner, number: int) -> None:
        """Nobody has one."""


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
        composed = compose_agent(_recorded_parts(node_id, gate, parts, nodes))
        self.records = composed.parts.records
        self.runs = composed.runs
        self.sessions = composed.sessions
        self.contexts = composed.contexts
        self.after_turn = composed.after_turn
        self._composed = composed
        self._projector = Projector(parts.event_log, parts.read_models, (Sessions(),), parts.clock)
        self._following = asyncio.create_task(self.after_turn.run())

    async def poll(self) -> None:
        """Take over unfinished sessions."""
        await self._projector.caught_up()
        await self._composed.take_over.poll()

    async def end(self) -> None:
        """Die, as a killed process does."""
        await self.runs.drain(0)
        self._following.cancel()
        await asyncio.wait({self._following})
        await self._composed.close()


def _recorded_parts(node_id: NodeId, gate: Gate, parts: Parts, nodes: RecordedNodes) -> AgentParts:
    """The parts of an agent whose outside is the recording."""
    secrets, ids = MaskedAlready(), _SubagentIds(gate, parts.ids)
    ask = RecordedAsk(
        RecordedAnswers(
            gate=gate,
            renderers=parts.renderers,
            texts=parts.texts,
            clock=parts.clock,
            ids=parts.ids,
        )
    )
    tools, policy = RecordedTools(gate, parts.spawn), RecordedPolicy(gate.recording)

    def files(profiles: Profiles) -> ServedProfiles:
        return ServedProfiles(profiles, parts.event_log, parts.texts)

    return AgentParts(
        node=node_id,
        event_log=parts.event_log,
        read_models=parts.read_models,
        records=GatedRecords(
            gate, parts.event_log, parts.read_models, parts.clock, ids, node_id, secrets
        ),
        nodes=nodes,
        clock=parts.clock,
        ids=ids,
        secrets=secrets,
        ask_model=ask,
        run_tool=RecordedRunTool(
            tools,
            workspaces=NoFiles(),
            outputs=AsRecorded(),
            clock=parts.clock,
            policy=policy,
            secrets=secrets,
            user_of=nobodys_user,
        ),
        policy=policy,
        budgets=Unbounded(),
        show_picture=ShowPicture(NothingShown(), parts.texts),
        choices=files(OutsideProfiles(gate)),
        in_turns=Surroundings(
            profiles=files(RecordedProfiles(gate)),
            tools=tools,
            memories=parts.recalled,
            compress=RecordedCompress(ask, gate),
        ),
        beside_turns=Surroundings(
            profiles=files(BesideProfiles(gate)),
            tools=BesideTools(gate),
            memories=parts.known,
            compress=CompressBeside(ask, gate),
        ),
        places=TurnPlaces(NoLimits(), NoLimits()),
        subagent_seconds=_subagent_seconds(gate.recording),
        follows=False,  # the rerun itself starts what follows a turn
    )


def _subagent_seconds(recording: Recording) -> float:
    """The time limit of subagents, as logged; in old logs inferred from one that ran out of time."""
    for call in recording.calls:
        settings = settings_of(recording, call)
        if settings is not None:
            return settings.subagent_seconds
    for envelope in recording.envelopes:
        if isinstance(envelope.event, SubagentFinished):
            seconds = seconds_it_had(envelope.event.result)
            if seconds is not None:
                return seconds
    return SUBAGENT_SECONDS
