"""What a tool was described as when it was last let run is kept, also where Postgres goes away."""

import pytest

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.events import ToolAllowed
from navi.domain.vocabulary.ids import LOCAL_OWNER, owner_stream
from navi.ports.event_log import Append, Recorded
from navi.ports.tools import AllowedDescription
from tests.support.allowed_tools import SharedLog


class AwayOnce(InMemoryEventLog):
    """Postgres goes away before or after the first `tool_allowed` is stored; nobody knows which."""

    def __init__(self, *, stored: bool) -> None:
        super().__init__()
        self.away = 1
        self._stored = stored

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if not self.away or not isinstance(batch.events[0].event, ToolAllowed):
            return await super().append(batch)
        self.away -= 1
        if self._stored:
            await super().append(batch)
        raise LogUnavailable("Postgres does not answer")


@pytest.mark.parametrize("stored", [False, True])
async def test_it_is_kept_once_where_postgres_goes_away_for_a_moment(stored: bool) -> None:
    log = AwayOnce(stored=stored)
    shared = SharedLog(log)
    allowed = shared.node()

    await allowed.allow(LOCAL_OWNER, "notes__read", "Reads a note.")

    told = AllowedDescription(text="Reads a note.")
    assert await allowed.last(LOCAL_OWNER, "notes__read") == told
    assert await shared.node().last(LOCAL_OWNER, "notes__read") == told
    rows = [row async for batch in log.read(owner_stream(LOCAL_OWNER)) for row in batch]
    assert [row.type for row in rows].count(ToolAllowed.TYPE) == 1
    assert log.away == 0
