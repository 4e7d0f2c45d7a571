"""The services that routes use, given by the composition root."""

import asyncio
from collections.abc import Awaitable, Callable

from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation
from msgspec import Struct, field

from navi.application.commands.decide_approval import ApprovalDecider
from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.doors.take_message import TakeMessage
from navi.application.memory.manage_memories import ManageMemories
from navi.application.uploads.manage_uploads import ManageUploads
from navi.ports.language_model import Renderers
from navi.ports.log_partitions import PartitionedLog
from navi.ports.metrics import Gauges, Metrics
from navi.ports.price_list import PriceList
from navi.ports.profiles import Profiles
from navi.ports.read_models import ReadModels
from navi.ports.text_store import TextStore
from navi.ports.tools import OfferedTools


class Readiness(Struct, frozen=True, kw_only=True):
    """Which of a node's dependencies are available."""

    postgres: bool
    nats: bool
    migrations: bool


class Draining(Struct, frozen=True, kw_only=True):
    """The state of shutdown; both events are set once and never cleared.

    Attributes:
        begun: no new turns; a socket is closed once this process runs nothing of its session.
        over: running turns have ended or were let go of; nobody is kept waiting any longer.
    """

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Services(Struct, frozen=True, kw_only=True):
    """Everything the routes may use.

    Attributes:
        check: looks at the servers the node needs; answers within a few seconds and never raises.
        take_gauges: likewise.
    """

    event_log: PartitionedLog
    read_models: ReadModels
    sessions: ManageSessions
    fork_session: SessionForker
    contexts: ManageContext
    decide_approval: ApprovalDecider
    take_message: TakeMessage
    memories: ManageMemories
    uploads: ManageUploads
    profiles: Profiles
    tools: OfferedTools
    texts: TextStore
    prices: PriceList
    renderers: Renderers
    check: Callable[[], Awaitable[Readiness]]
    metrics: Metrics
    take_gauges: Callable[[], Awaitable[Gauges]]
    draining: Draining
    version: str


Given = NamedDependency[SkipValidation[Services]]
PathText = FromPath[str]
