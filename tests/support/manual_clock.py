"""A clock that stands until a test winds it."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """The port ``Clock``, at noon of some day."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    def wind(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds
