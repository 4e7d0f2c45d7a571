"""The audit log: a stream of its own in the log, which anybody with the log can verify."""

from navi.application.session.own_stream import open_own_stream
from navi.application.session.record import Records
from navi.domain.session.commands import RecordAside
from navi.domain.vocabulary.events import AuditEvent
from navi.domain.vocabulary.ids import SYSTEM_OWNER
from navi.ports.accounts import Accounts


class AuditLog:
    """Appends to the audit log.

    Where there are no users there is one person, and nobody to whom it would tell anything: nothing is
    written.
    """

    def __init__(self, records: Records, accounts: Accounts) -> None:
        self._records = records
        self._accounts = accounts

    async def write(self, event: AuditEvent) -> None:
        """Write down what was done.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        if not await self._accounts.any_user():
            return
        record = await open_own_stream(self._records, SYSTEM_OWNER)
        await record.execute(RecordAside(events=(event,)))
