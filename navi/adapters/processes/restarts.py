"""The restart policy for a process that ended by itself: after which pause, and how often at first."""

from msgspec import Struct

STEADY_SECONDS = 30.0  # a process that ran that long had begun well
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds before the next try, doubled each time
MOST_QUICK = 5  # ends in a row, none of them steady


class Restarts(Struct, frozen=True, kw_only=True):
    """How often the process of one seat was started again.

    Attributes:
        total: since the service began.
        quick: ends in a row of processes that had not run steadily.
    """

    total: int = 0
    quick: int = 0

    def ended(self, *, lived: float) -> "Restarts":
        """After an end that nobody asked for, of a process that lived so many seconds."""
        quick = 1 if lived >= STEADY_SECONDS else self.quick + 1
        return Restarts(total=self.total + 1, quick=quick)

    @property
    def in_vain(self) -> bool:
        """Whether it was started again as often as one that will ever run should need."""
        return self.quick > MOST_QUICK

    @property
    def pause(self) -> float:
        """Seconds until it is started again."""
        if self.in_vain:
            return LONGEST_PAUSE
        return min(FIRST_PAUSE * 2 ** (self.quick - 1), LONGEST_PAUSE)
