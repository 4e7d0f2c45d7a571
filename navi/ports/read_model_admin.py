"""Administration of read models, and the whole of a backend."""

from collections.abc import Collection, Sequence
from typing import Protocol

from navi.domain.vocabulary.ids import SessionId
from navi.ports.read_model_builds import ReadModelBuilds
from navi.ports.read_models import ParkedEvent, ReadModels


class ReadModelAdmin(Protocol):
    """Look after stored read models."""

    async def forget(
        self, session_id: SessionId, *, keep_listed: bool, but: Collection[str] = ()
    ) -> None:
        """Drop every projection's stored state of a session; it is folded again from the log.

        No batch is under way meanwhile that was folded from what the log said before.

        Args:
            keep_listed: keep where it stands in lists and its name. What else its state said is gone: it is
                at seq 0 and cannot be decoded.
            but: projections of which all is kept.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        ...

    async def parked(
        self, projection: str, version: int, *, limit: int | None = None
    ) -> Sequence[ParkedEvent]:
        """The events that the projection cannot fold, by session and seq."""
        ...


class ReadModelBackend(ReadModels, ReadModelBuilds, ReadModelAdmin, Protocol):
    """All that an implementation offers; every one passes ``tests/contracts/read_models.py``."""
