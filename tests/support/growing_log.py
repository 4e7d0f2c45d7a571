"""A log that grows by command, for tests of what only reads it: no sessions, no appends."""

import asyncio
from datetime import UTC, datetime

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.vocabulary.ids import LOCAL_OWNER, EventId, SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_partitions import Page

SESSIONS = tuple(SessionId(f"01990000-0000-7000-8000-00000000000{n}") for n in range(3))
AT = datetime(2026, 11, 20, 10, tzinfo=UTC)


def row(position: int, *, history: int = 0, text: str = "", partition: int = 0) -> Recorded:
    """The event at a position; logs of different ``history`` have different events there."""
    return Recorded(
        partition=partition,
        position=position,
        owner=LOCAL_OWNER,
        session_id=SESSIONS[position % 3],
        seq=(position + 2) // 3,
        id=EventId(f"01990000-0000-7000-9000-{history:04x}{position:08x}"),
        type="text_delta" if position % 2 else "session_renamed",
        v=1,
        at=AT,
        turn_id=None,
        subagent_id=None,
        data=b'{"text":"%b"}' % text.encode(),
        salt=bytes(16),
        digest=bytes(32),
        hash=bytes(32),
    )


class GrowingLog(InMemoryEventLog):
    """One partition, all of whose rows are made by ``row``; only what a follower reads is of use."""

    def __init__(self, size: int = 0, *, history: int = 0) -> None:
        super().__init__()
        self.rows = [row(position, history=history) for position in range(1, size + 1)]
        self._history = history
        self._more = asyncio.Event()

    def grow(self, count: int = 1, *, text: str = "") -> None:
        size = len(self.rows)
        self.rows += [
            row(position, history=self._history, text=text)
            for position in range(size + 1, size + count + 1)
        ]
        self._more.set()
        self._more = asyncio.Event()

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        rows = tuple(self.rows[after : after + limit])
        return Page(rows=rows, reached=after + len(rows), head=len(self.rows))

    async def wait_beyond(self, partition: int, position: int, *, timeout: float) -> bool:  # noqa: ASYNC109  # the port's
        try:
            async with asyncio.timeout(timeout):
                while len(self.rows) <= position:
                    await self._more.wait()
        except TimeoutError:
            return False
        return True
