"""Keep in the log how tools were described when their owners last let them run."""

from navi.application.session.own_stream import open_own_stream
from navi.application.session.record import Records
from navi.application.session.retry import with_retry
from navi.domain.session.commands import RecordAside
from navi.domain.vocabulary.events import ToolAllowed
from navi.domain.vocabulary.ids import Owner, owner_stream
from navi.ports.text_store import TextStore
from navi.ports.tools import AllowedDescription


class AllowedInLog:
    """The port ``AllowedTools``: a fold of the owner's own stream, so that all nodes agree.

    For turns: it waits while Postgres is unavailable.
    """

    def __init__(self, records: Records, texts: TextStore) -> None:
        self._records = records
        self._texts = texts

    async def last(self, owner: Owner, tool: str) -> AllowedDescription | None:
        """How a tool was described when the owner last let it run."""
        record = await with_retry(lambda: self._records.open(owner_stream(owner)))
        sha256 = record.session.allowed_tools.get(tool)
        if sha256 is None:
            return None
        return AllowedDescription(text=await with_retry(lambda: self._texts.get(sha256)))

    async def allow(self, owner: Owner, tool: str, text: str) -> None:
        """Keep how a tool is described that the owner lets run now."""
        (sha256,) = await with_retry(lambda: self._texts.put(text))
        record = await with_retry(lambda: open_own_stream(self._records, owner))
        if record.session.allowed_tools.get(tool) != sha256:
            allowed = ToolAllowed(name=tool, description_sha256=sha256)
            await record.execute(RecordAside(events=(allowed,)), retry=True)
