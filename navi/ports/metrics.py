"""Metrics of a process: what it appended is counted, what is so at the moment is measured when asked."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from navi.domain.session.session import Session
from navi.ports.event_log import Recorded


class Gauges(Struct, frozen=True, kw_only=True):
    """What is so at the moment; None where nobody can tell, as while Postgres is away.

    Attributes:
        turns_running: on this node.
        approvals_waiting: tool calls of all sessions that wait for a person.
        relay_lag: events that were appended and not published to NATS yet.
        projection_lag: events that a read model has not folded in yet, by name.
    """

    turns_running: int
    approvals_waiting: int | None
    relay_lag: int | None
    projection_lag: Mapping[str, int] | None


class Exposition(Struct, frozen=True, kw_only=True):
    """All metrics as a document."""

    content_type: str
    body: bytes


class EventMetrics(Protocol):
    """Counts what this process appended, after it was committed, each event once."""

    def appended(self, *, seconds: float) -> None:
        """An append was committed that took this long."""
        ...

    def folded(self, row: Recorded, before: Session, *, own: bool) -> None:
        """An event is in the log.

        Args:
            before: the session without it.
            own: whether this process appended it.
        """
        ...


class SocketMetrics(Protocol):
    """Knows how many sockets are open."""

    @property
    def sockets(self) -> int:
        """How many there are now."""
        ...

    def hold_sockets(self, count: int) -> None:
        """That many sockets are open now."""
        ...


class Metrics(EventMetrics, SocketMetrics, Protocol):
    """All metrics of a process."""

    def expose(self, gauges: Gauges, *, accept: str) -> Exposition:
        """The document, in the form that the ``Accept`` header of whoever asks wants."""
        ...
