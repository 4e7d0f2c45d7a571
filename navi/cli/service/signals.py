"""Signals to navi: SIGTERM, SIGINT and SIGHUP end it, but SIGHUP replaces processes where there are several."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

TERMINAL = "/dev/tty"


class Ending:
    """Signal handling: the first signal shuts down gracefully, the second one at once, but for SIGHUP."""

    def __init__(self, main: asyncio.Task[int]) -> None:
        self._main = main
        self._serving = False
        self.asked = asyncio.Event()

    def install(self) -> None:
        """Take SIGTERM and SIGINT from now on, and SIGHUP where it was not ignored."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take, number)
        if not hangups_are_ignored():
            # A terminal that is closed sends it, and the shell there once more: no reason to hurry.
            loop.add_signal_handler(signal.SIGHUP, self.ask)

    async def wait(self) -> None:
        """Wait for the first signal; until this is called it interrupts the start."""
        self._serving = True
        await self.asked.wait()

    def ask(self) -> None:
        """Shut down gracefully, as at the first signal; nothing where that goes on."""
        if not self.asked.is_set():
            self.asked.set()
            if not self._serving:
                self._main.cancel()

    def _take(self, number: int) -> None:
        if self.asked.is_set():
            # Embedded servers and processes are told by the kernel that their parent has gone.
            os._exit(128 + number)
        self.ask()


@contextmanager
def taking_hangups(
    replace: Callable[[], None], *, end: Callable[[], None]
) -> Generator[None, None, None]:
    """Call ``replace`` at SIGHUP while the block runs; or ``end`` where a terminal was closed, which sends it too.

    Neither where SIGHUP was ignored.
    """
    if hangups_are_ignored():
        yield
        return
    on_terminal = _has_terminal()

    def take() -> None:
        (end if on_terminal and not _has_terminal() else replace)()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, take)
    try:
        yield
    finally:
        # Not the default, which would end all at once in the middle of its end.
        loop.add_signal_handler(signal.SIGHUP, end)


def hangups_are_ignored() -> bool:
    """Whether this process was started so that SIGHUP does nothing, as ``nohup`` does."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def _has_terminal() -> bool:
    """Whether this process has one that is still there."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
