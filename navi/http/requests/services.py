"""The services that routes use, given by the composition root."""

import asyncio
from collections.abc import Awaitable, Callable

from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation
from msgspec import Struct, field
from msgspec.structs import replace

from navi.application.agent.compress import CompressSettings
from navi.application.commands.decide_approval import ApprovalDecider
from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_context import ManageContext
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.composition.compose_accounts import AccountServices
from navi.application.doors.take_message import TakeMessage
from navi.application.memory.manage_memories import ManageMemories
from navi.application.reading.context_windows import ContextWindows
from navi.application.reading.node_health import NodeHealth
from navi.application.uploads.manage_uploads import ManageUploads
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.ids import Owner
from navi.domain.vocabulary.principal import Principal
from navi.http.requests.rates import Rates
from navi.ports.language_model import Renderers
from navi.ports.log_partitions import PartitionedLog
from navi.ports.metrics import Gauges, Metrics
from navi.ports.price_list import PriceList
from navi.ports.profiles import Profiles
from navi.ports.read_models import ReadModels
from navi.ports.text_store import TextStore
from navi.ports.tools import OfferedTools
from navi.ports.workspace_files import WorkspaceFiles

NOBODY = Owner("nobody")  # no user's id: those are UUIDs, or `local`


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


class Reads(Struct, frozen=True, kw_only=True):
    """The log and the read models, as somebody sees them."""

    event_log: PartitionedLog
    read_models: ReadModels


class Services(Struct, frozen=True, kw_only=True):
    """Everything the routes may use.

    Attributes:
        reads_of: log and read models in which an owner finds what is theirs, and nothing else.
        check: looks at the servers the node needs; answers within a few seconds and never raises.
        take_gauges: likewise.
        secrets: what is masked in texts that do not come from the log.
    """

    accounts: AccountServices
    event_log: PartitionedLog
    read_models: ReadModels
    reads_of: Callable[[Owner], Reads]
    sessions: ManageSessions
    fork_session: SessionForker
    contexts: ManageContext
    decide_approval: ApprovalDecider
    take_message: TakeMessage
    memories: ManageMemories
    uploads: ManageUploads
    workspace_files: WorkspaceFiles
    profiles: Profiles
    context_windows: ContextWindows
    compression: CompressSettings
    tools: OfferedTools
    texts: TextStore
    prices: PriceList
    renderers: Renderers
    check: Callable[[], Awaitable[Readiness]]
    metrics: Metrics
    take_gauges: Callable[[], Awaitable[Gauges]]
    secrets: Secrets
    look_at_node: Callable[[], Awaitable[NodeHealth]]
    draining: Draining
    version: str
    rates: Rates = field(default_factory=Rates)

    def seen_by(self, principal: Principal | None) -> "Services":
        """The services for a request of ``principal``; of nobody it reads nothing, of an admin all.

        What a route reads it reads with these, whatever it asks for: the check of whose a session is
        (``find_session``) comes first, and this is the line behind it.
        """
        if principal is not None and principal.is_admin:
            return self
        reads = self.reads_of(NOBODY if principal is None else principal.user_id)
        return replace(self, event_log=reads.event_log, read_models=reads.read_models)


Given = NamedDependency[SkipValidation[Services]]
PathText = FromPath[str]
