"""A session's record reads the log for what others appended, and for nothing else."""

from collections.abc import AsyncGenerator

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.system import RandomIds, SystemClock
from navi.application.record import Records
from navi.domain.commands import CreateSession, RenameSession
from navi.domain.ids import LOCAL_OWNER, NodeId, SessionId
from navi.domain.secrets import Secrets
from navi.ports import Recorded

SESSION = SessionId("0199b0a0-0000-7000-8000-000000000001")


class CountedLog(InMemoryEventLog):
    """Counts how often a session is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        deltas: bool = True,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        self.reads += 1
        return super().read(session_id, after=after, until=until, deltas=deltas)


def records(log: CountedLog, node: str) -> Records:
    models = InMemoryReadModels()
    return Records(log, models, SystemClock(), RandomIds(), NodeId(node), Secrets())


async def test_what_this_process_appended_is_not_read_again() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    before = log.reads

    await record.refresh(until=record.seq)

    assert log.reads == before


async def test_what_another_process_appended_is_read() -> None:
    log = CountedLog()
    record = await records(log, "a").open(SESSION)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    other = await records(log, "b").open(SESSION)
    await other.execute(RenameSession(name="theirs", by="user"))

    await record.refresh(until=other.seq)

    assert (record.seq, record.session.name) == (other.seq, "theirs")
