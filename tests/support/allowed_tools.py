"""What tools were like when they were last allowed, in a log in memory that nodes share."""

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.system import RandomIds, SystemClock
from navi.application.agent.allowed_tools import AllowedInLog
from navi.application.session.record import Records
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.ids import NodeId


class SharedLog:
    """A log and its texts, without nodes."""

    def __init__(self, log: InMemoryEventLog | None = None) -> None:
        self.texts = InMemoryTextStore()
        self._log = log or InMemoryEventLog()
        self._read_models = InMemoryReadModels()

    def node(self) -> AllowedInLog:
        """What a process of its own sees of it."""
        clock, ids = SystemClock(), RandomIds()
        records = Records(self._log, self._read_models, clock, ids, NodeId(ids.uuid()), Secrets())
        return AllowedInLog(records, self.texts)
