"""Progress of a command that takes a while, on standard error."""

import click

from navi.adapters.system import SystemClock

EVERY_SECONDS = 1.0  # between two lines


class Progress:
    """Says how many of some things are done, a line a second and none where it is quick."""

    def __init__(self, total: int, done_word: str) -> None:
        self._total = total
        self._word = done_word
        self._clock = SystemClock()
        self._said_at = self._clock.monotonic()
        self._done = 0

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        now = self._clock.monotonic()
        if now - self._said_at >= EVERY_SECONDS:
            click.echo(f"{self._done:,} of {self._total:,} {self._word}", err=True)
            self._said_at = now
