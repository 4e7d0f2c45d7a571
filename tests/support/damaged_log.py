"""A log in memory of which some sessions cannot be read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import ALL_TYPES, Recorded, Types
from tests.support.app import SwitchedLog


class DamagedLog(SwitchedLog):
    """A log in which some sessions cannot be read; it notes which were to be."""

    def __init__(self, trouble: Exception) -> None:
        super().__init__()
        self.trouble = trouble
        self.damaged: set[SessionId] = set()
        self.tried: list[SessionId] = []

    async def read(
        self,
        session_id: SessionId,
        *,
        after: int = 0,
        until: int | None = None,
        types: Types = ALL_TYPES,
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        if session_id in self.damaged:
            self.tried.append(session_id)
            raise self.trouble
        reading = super().read(session_id, after=after, until=until, types=types)
        async with aclosing(reading) as batches:
            async for batch in batches:
                yield batch
