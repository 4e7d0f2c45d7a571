"""Compose what works on the log alone, without a model: for a node, a command and a test."""

from msgspec import Struct

from navi.application.audit.erase_sessions import EraseSessions
from navi.application.commands.fork_session import SessionForker
from navi.application.followers.project import Projector
from navi.application.memory.erase_memory import EraseMemory
from navi.application.memory.keep_memories import KeepMemories
from navi.application.memory.manage_memories import ManageMemories
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.ids import NodeId
from navi.ports.clock import Clock, Ids
from navi.ports.log_admin import LogBackend
from navi.ports.memories import Memories
from navi.ports.metrics import EventMetrics
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.text_store import TextStore
from navi.ports.uploads import UploadStore
from navi.ports.workspaces import Workspaces
from navi.projections.registry import PROJECTIONS


class LogPorts(Struct, frozen=True, kw_only=True):
    """The log, what is kept beside it, and the process that works on it.

    Attributes:
        metrics: counts what the process appends; None in commands.
    """

    node: NodeId
    event_log: LogBackend
    read_models: ReadModelBackend
    texts: TextStore
    memories: Memories
    workspaces: Workspaces
    uploads: UploadStore
    clock: Clock
    ids: Ids
    secrets: Secrets
    metrics: EventMetrics | None = None


class LogServices(Struct, frozen=True, kw_only=True):
    """What a process does to the log and what is kept beside it.

    Attributes:
        projector: brings every read model up to date, at full speed.
    """

    ports: LogPorts
    records: Records
    keep_memories: KeepMemories
    memories: ManageMemories
    fork_session: SessionForker
    erase_sessions: EraseSessions
    projector: Projector


def compose_log_services(ports: LogPorts) -> LogServices:
    """The services of a process that needs no model for them."""
    log, read_models, texts = ports.event_log, ports.read_models, ports.texts
    records = Records(
        log,
        read_models,
        ports.clock,
        ports.ids,
        ports.node,
        ports.secrets,
        metrics=ports.metrics,
    )
    erase_memory = EraseMemory(log, texts, records, read_models)
    keep_memories = KeepMemories(log, ports.memories, erase_memory, read_models)
    memories = ManageMemories(
        records,
        ports.memories,
        keep_memories,
        erase_memory,
        ports.ids,
    )
    projector = Projector(log, read_models, PROJECTIONS, ports.clock)
    return LogServices(
        ports=ports,
        records=records,
        keep_memories=keep_memories,
        memories=memories,
        fork_session=SessionForker(
            log, read_models, records, ports.workspaces, ports.uploads, ports.ids
        ),
        erase_sessions=EraseSessions(
            log,
            texts,
            read_models,
            records,
            memories,
            ports.workspaces,
            ports.uploads,
            projector,
        ),
        projector=projector,
    )
