"""An in-memory log that stores the recorded event for each append of a rerun."""

from collections.abc import Sequence

from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.domain.reading.recording import begins_fork
from navi.domain.vocabulary.events import Envelope
from navi.ports.event_log import Append, NewEvent, Recorded


class RecordedLog(InMemoryEventLog):
    """Stores the recorded event of the same seq: its id, time and turn.

    Whoever appends has seen to it that both say the same. A fork may part what was appended together:
    then the rest never was.
    """

    def __init__(self, envelopes: Sequence[Envelope]) -> None:
        super().__init__()
        self._recording = envelopes

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        """Append what the recording has there.

        Raises:
            ConcurrentAppend: something stands there already, which the caller has not seen yet.
        """
        head = await self.head(batch.session_id)
        if head not in (0, batch.expected):
            return await super().append(
                batch
            )  # under its own ids, that it is not taken for what is there
        there = self._recording[batch.expected : batch.expected + len(batch.events)]
        cut = next((n for n, one in enumerate(there) if n and begins_fork(one)), len(there))
        events = tuple(
            NewEvent(
                id=envelope.id,
                at=envelope.at,
                turn_id=envelope.turn_id,
                subagent_id=envelope.subagent_id,
                event=envelope.event,
            )
            for envelope in there[:cut]
        )
        return await super().append(replace(batch, events=events))
