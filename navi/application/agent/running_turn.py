"""A turn that runs in this process, and what it is run with."""

from msgspec import Struct

from navi.application.agent.actor_profile import ServedProfiles
from navi.application.agent.compress import CompressContext
from navi.application.agent.model_calls.ask_model import AskModelOnce
from navi.application.agent.run_tool import RunToolOnce
from navi.application.agent.show_picture import ShowPicture
from navi.application.agent.turn_places import TurnPlaces
from navi.application.session.record import Record
from navi.domain.session.commands import PartialReply, Runner
from navi.domain.vocabulary.ids import CallId, NodeId
from navi.ports.clock import Clock, Ids
from navi.ports.memories import Memories
from navi.ports.tools import ToolBox


class Agent(Struct, frozen=True, kw_only=True):
    """The dependencies of running turns, the same for all turns of a process.

    Attributes:
        subagent_seconds: from the start of a subagent to its end, whatever becomes of the process.
    """

    node: NodeId
    ids: Ids
    clock: Clock
    profiles: ServedProfiles
    tools: ToolBox
    ask_model: AskModelOnce
    run_tool: RunToolOnce
    compress: CompressContext
    show_picture: ShowPicture
    memories: Memories
    places: TurnPlaces
    subagent_seconds: float


class RunningTurn(Struct, frozen=True, kw_only=True):
    """A turn that this process runs.

    Attributes:
        partial_replies: what came of the calls that were given up because the turn is to halt.
        unshown: paths of pictures that cannot be shown, for them not to be tried again.
    """

    record: Record
    runner: Runner
    agent: Agent
    partial_replies: dict[CallId, PartialReply]
    unshown: set[str]
