"""A child process that dies with navi, however navi ends."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Self

import psutil

LAUNCHER = Path(__file__).with_name("launch.py")
LOG_LIMIT = 10_000_000  # bytes, when the log is put aside at the next start
LOG_TAIL = 2_000  # characters shown when a server does not start
# Nothing is inherited: PGPORT, PGDATA and their like would change what the server does.
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

# Ends the server when its standard input does, for systems without PR_SET_PDEATHSIG.
WATCHDOG = 'trap "" INT TERM HUP; read _; kill -"$1" "$2" 2>/dev/null'


class Identity(StrEnum):
    """The user that a server runs as."""

    SAME = "same"
    NAMESPACE = "namespace"  # root outside, nobody inside
    NOBODY = "nobody"


class Child:
    """One running process of a server."""

    def __init__(
        self, process: asyncio.subprocess.Process, watchdog: asyncio.subprocess.Process | None
    ) -> None:
        self._process = process
        self._watchdog = watchdog

    @classmethod
    async def spawn(
        cls,
        program: Sequence[str],
        *,
        log: Path,
        identity: Identity,
        farewell: signal.Signals,
        environment: dict[str, str] | None = None,
    ) -> Self:
        """Start a program; its output goes to ``log``.

        Args:
            farewell: what the program gets when navi dies. On Linux it follows the thread that
                called this, which therefore has to live as long as the program.
        """
        arguments = [str(os.getpid()), str(farewell.value), identity.value, *program]
        descriptor = await asyncio.to_thread(_open_log, log)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER), *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=asyncio.subprocess.STDOUT,
                env=ENVIRONMENT | (environment or {}),
                start_new_session=True,  # ^C in a terminal is for navi, which drains first
            )
        finally:
            os.close(descriptor)
        watchdog = None if sys.platform == "linux" else await _watch(process.pid, farewell)
        return cls(process, watchdog)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    async def wait(self) -> int:
        """Until the process has ended, its exit status."""
        status = await self._process.wait()
        if self._watchdog is not None and self._watchdog.returncode is None:
            self._watchdog.kill()  # before it signals whoever gets the pid next
            await self._watchdog.wait()
        return status

    async def stop(self, *steps: tuple[signal.Signals, float]) -> None:
        """Send each signal and give it its seconds; after the last one, end the process at once."""
        for number, seconds in steps:
            if self.exit_status is not None:
                break
            self._process.send_signal(number)
            try:
                await asyncio.wait_for(self.wait(), seconds)
            except TimeoutError:
                continue
        if self.exit_status is None:
            await asyncio.to_thread(kill_process_tree, self.pid)
        await self.wait()


def kill_process_tree(pid: int) -> None:
    """Kill a process tree; a postmaster alone would leave backends that hold memory."""
    try:
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            process.kill()
    except psutil.NoSuchProcess:
        return


def log_tail(log: Path) -> str:
    """The last lines of a log."""
    try:
        return log.read_text(errors="replace")[-LOG_TAIL:].strip()
    except FileNotFoundError:
        return ""


def rotate_log(log: Path) -> None:
    """Rotate a log that has grown large; one older file is kept."""
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_name(f"{log.name}.1"))


def _open_log(log: Path) -> int:
    rotate_log(log)
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def _watch(pid: int, farewell: signal.Signals) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", WATCHDOG, "sh", farewell.name.removeprefix("SIG"), str(pid)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=ENVIRONMENT,
        start_new_session=True,
    )
