"""Compose the agent of a process: the same for a node, a test and a rerun.

``live_parts`` says what asks real models and runs real tools; a rerun has parts of its own, which take
all of that from a recording. ``compose_agent`` puts either together.
"""

from msgspec import Struct

from navi.application.agent.actor_profile import ServedProfiles
from navi.application.agent.after_turn.after_turn import AfterTurn
from navi.application.agent.after_turn.compress_after import CompressAfter
from navi.application.agent.after_turn.name_session import NameSession
from navi.application.agent.after_turn.remember import Remember
from navi.application.agent.agent_settings import AgentSettings, settings_text
from navi.application.agent.budgets import Budgets, CheckBudgets
from navi.application.agent.compress import CompressContext, CompressSettings
from navi.application.agent.model_calls.ask_model import AskModelOnce, CallSettings
from navi.application.agent.model_calls.call_bounds import CallBounds
from navi.application.agent.model_calls.model_queue import ModelQueue
from navi.application.agent.policy import Policy, ProfilePolicy
from navi.application.agent.run_tool import RunToolOnce, UserOf
from navi.application.agent.running_turn import Agent
from navi.application.agent.session_runs import SessionRuns
from navi.application.agent.show_picture import ShowPicture
from navi.application.agent.take_over import TakeOver
from navi.application.agent.turn_places import TurnPlaces
from navi.application.commands.decide_approval import ApprovalDecider
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.composition.compose_log_services import LogServices
from navi.application.session.record import Records
from navi.domain.agent.approvals import Search
from navi.domain.log.secrets import Secrets
from navi.domain.session.turn import SUBAGENT_SECONDS
from navi.domain.vocabulary.ids import NodeId, SessionId
from navi.ports.clock import Clock, Ids
from navi.ports.log_partitions import PartitionedLog
from navi.ports.memories import Memories
from navi.ports.model_servers import ModelServers
from navi.ports.nodes import Nodes
from navi.ports.pictures import Pictures
from navi.ports.profiles import Profiles
from navi.ports.read_models import ReadModels
from navi.ports.token_limits import TokenLimits
from navi.ports.tools import Outputs, ToolBox
from navi.ports.user_limits import PlaceLocks, UserLimits


class AgentPorts(Struct, frozen=True, kw_only=True):
    """The ports and settings of an agent that asks real models and runs real tools.

    Attributes:
        search: looks for the expressions of policies.
        user_of: whom tools work for, by the owner of the session.
    """

    log_services: LogServices
    nodes: Nodes
    servers: ModelServers
    profiles: Profiles
    tools: ToolBox
    outputs: Outputs
    pictures: Pictures
    calls: CallSettings
    compression: CompressSettings
    limits: UserLimits
    places: PlaceLocks
    search: Search
    token_limits: TokenLimits
    user_of: UserOf
    subagent_seconds: float = SUBAGENT_SECONDS


class Surroundings(Struct, frozen=True, kw_only=True):
    """What model calls are made with: who the agent is, what it may use, what it knows."""

    profiles: ServedProfiles
    tools: ToolBox
    memories: Memories
    compress: CompressContext


class AgentParts(Struct, frozen=True, kw_only=True):
    """What an agent is composed of.

    Attributes:
        choices: the profiles that people may choose.
        in_turns: what turns are run with.
        beside_turns: what the calls outside of turns are made with.
        follows: whether what follows a turn begins by itself; else somebody tells `AfterTurn`.
    """

    node: NodeId
    event_log: PartitionedLog
    read_models: ReadModels
    records: Records
    nodes: Nodes
    clock: Clock
    ids: Ids
    secrets: Secrets
    ask_model: AskModelOnce
    run_tool: RunToolOnce
    policy: Policy
    budgets: Budgets
    show_picture: ShowPicture
    choices: ServedProfiles
    in_turns: Surroundings
    beside_turns: Surroundings
    places: TurnPlaces
    subagent_seconds: float
    follows: bool = True


class ComposedAgent(Struct, frozen=True, kw_only=True):
    """The agent of a process, and what people may do with its sessions.

    ``after_turn`` and ``take_over`` are to be run; ``runs`` is to be drained, then ``close`` called.
    """

    parts: AgentParts
    agent: Agent
    runs: SessionRuns
    after_turn: AfterTurn
    take_over: TakeOver
    sessions: ManageSessions
    contexts: ManageContext
    decide_approval: ApprovalDecider

    async def close(self) -> None:
        """Cancel what tools have left running."""
        await self.parts.run_tool.close()


def live_parts(ports: AgentPorts) -> AgentParts:
    """The parts of an agent that asks real models and runs real tools."""
    services = ports.log_services
    own = services.ports
    profiles = ServedProfiles(ports.profiles, own.event_log, own.texts)
    budgets = CheckBudgets(own.event_log, own.read_models, profiles, own.clock, ports.token_limits)
    ask_model = AskModelOnce(
        ports.servers,
        texts=own.texts,
        clock=own.clock,
        ids=own.ids,
        settings=ports.calls,
        secrets=own.secrets,
        bounds=CallBounds(ports.servers),
        queue=ModelQueue(),
        made_with=settings_text(
            AgentSettings(compression=ports.compression, subagent_seconds=ports.subagent_seconds)
        ),
        budgets=budgets,
    )
    surroundings = Surroundings(
        profiles=profiles,
        tools=ports.tools,
        memories=own.memories,
        compress=CompressContext(ask_model, ports.compression),
    )
    policy = ProfilePolicy(profiles, ports.search)
    return AgentParts(
        node=own.node,
        event_log=own.event_log,
        read_models=own.read_models,
        records=services.records,
        nodes=ports.nodes,
        clock=own.clock,
        ids=own.ids,
        secrets=own.secrets,
        ask_model=ask_model,
        run_tool=RunToolOnce(
            ports.tools,
            workspaces=own.workspaces,
            outputs=ports.outputs,
            clock=own.clock,
            policy=policy,
            secrets=own.secrets,
            user_of=ports.user_of,
        ),
        policy=policy,
        budgets=budgets,
        show_picture=ShowPicture(ports.pictures, own.texts),
        choices=profiles,
        in_turns=surroundings,
        beside_turns=surroundings,
        places=TurnPlaces(ports.limits, ports.places),
        subagent_seconds=ports.subagent_seconds,
    )


def compose_agent(parts: AgentParts) -> ComposedAgent:
    """The agent of a process, from its parts."""
    node, log, records = parts.node, parts.event_log, parts.records
    inside, beside = parts.in_turns, parts.beside_turns
    agent = Agent(
        node=node,
        ids=parts.ids,
        clock=parts.clock,
        profiles=inside.profiles,
        tools=inside.tools,
        ask_model=parts.ask_model,
        run_tool=parts.run_tool,
        compress=inside.compress,
        show_picture=parts.show_picture,
        memories=inside.memories,
        places=parts.places,
        subagent_seconds=parts.subagent_seconds,
    )
    ask, profiles, tools = parts.ask_model, beside.profiles, beside.tools
    after_turn = AfterTurn(
        records,
        (
            CompressAfter(beside.compress, profiles, tools, node),
            NameSession(ask, profiles, tools, node),
            Remember(ask, beside.memories, profiles, tools, parts.ids, node),
        ),
    )
    completed = after_turn.completed if parts.follows else _nobody
    runs = SessionRuns(log, records, agent, parts.places, completed=completed)
    return ComposedAgent(
        parts=parts,
        agent=agent,
        runs=runs,
        after_turn=after_turn,
        take_over=TakeOver(
            log,
            parts.read_models,
            records,
            runs,
            parts.nodes,
            inside.tools,
            node,
            left_behind=after_turn.left_behind if parts.follows else _nobody,
        ),
        sessions=ManageSessions(
            log,
            records=records,
            runs=runs,
            profiles=parts.choices,
            ids=parts.ids,
            node=node,
            secrets=parts.secrets,
            budgets=parts.budgets,
        ),
        contexts=ManageContext(records, beside.compress, profiles, tools, node),
        decide_approval=ApprovalDecider(log, records, runs, inside.tools, parts.policy),
    )


def _nobody(session_id: SessionId, follow_up: object = None) -> None:
    """Start nothing."""
