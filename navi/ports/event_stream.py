"""The log on a message bus."""

from collections.abc import Sequence, Set
from typing import Protocol

from navi.domain.vocabulary.ids import EventId, Owner, SessionId
from navi.ports.event_log import Recorded


class EventStream(Protocol):
    """The log's partitions on the bus: a message's sequence number is its position in the log.

    Every implementation passes ``tests/contracts/event_stream.py``.
    """

    async def open(self, partition: int) -> int:
        """The position at which the stream ends, 0 where it is new.

        A missing stream is made, one whose settings were changed by hand is set right.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: the stream belongs to another log, or NATS will not keep it.
        """
        ...

    async def event_at(self, partition: int, position: int) -> EventId | None:
        """The id of the event at a position; None if the stream no longer has it.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: what stands there is no event of navi's.
        """
        ...

    async def publish(
        self, partition: int, rows: Sequence[Recorded], *, behind: Recorded | None = None
    ) -> None:
        """Publish consecutive rows at the end of the stream, durably, in order.

        A failure may leave the first few of them stored. May be called while another call is under
        way: its rows go behind those of that, or nowhere.

        Args:
            behind: the last row of the call before, where that is under way; None where what comes
                before these rows is known to be stored.

        Raises:
            StreamMoved: the stream ends elsewhere or is gone.
            BusUnavailable: NATS does not answer; how many were stored is unknown.
            StreamRefused: NATS will not store them.
        """
        ...

    async def erase(self, partition: int, positions: Sequence[int]) -> None:
        """Erase the messages at those positions; they stay as gaps.

        Raises:
            BusUnavailable: NATS does not answer; again.
            StreamRefused: NATS will not.
        """
        ...

    async def erase_session(
        self, partition: int, *, owner: Owner, session_id: SessionId, types: Set[str], before: int
    ) -> None:
        """Erase a session's messages of those types below position ``before``; they stay as gaps.

        As many as there are at once; raises as `erase`.
        """
        ...

    async def recreate(self, partition: int, *, first_position: int) -> None:
        """Delete the stream, whoever owns it, and recreate it to start at ``first_position``.

        Raises:
            BusUnavailable: NATS does not answer.
            StreamRefused: NATS will not make it.
        """
        ...
