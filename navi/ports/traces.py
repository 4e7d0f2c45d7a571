"""Traces for programs of others: where they are sent, and up to where that was done."""

from collections.abc import Sequence
from typing import Literal, Protocol

from navi.domain.reading.spans import Span

Delivery = Literal["taken", "refused", "away"]


class SpanExporter(Protocol):
    """Somebody who takes spans; one that was sent twice is there once, by its id."""

    async def export(self, spans: Sequence[Span]) -> Delivery:
        """Send spans, within some seconds.

        Returns:
            ``refused`` where these will never be taken, ``away`` where it is worth another try.
        """
        ...


class TraceCheckpoint(Protocol):
    """Up to where the traces of each partition of the log were sent; shared by all nodes."""

    async def position(self, partition: int) -> int | None:
        """The position; None where nothing was ever sent.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def move(self, partition: int, *, after: int | None, position: int) -> bool:
        """Move it; False, and nothing is done, where it is not at ``after`` any more.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...
