"""Run code in the real sandbox of this machine, and count what is left of it."""

import asyncio
import functools
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from navi.adapters.sandbox.sandbox import (
    CodeEnded,
    CodeRun,
    Language,
    Sandbox,
    SandboxLimits,
    find_sandbox,
)


@functools.cache
def real_sandbox() -> Sandbox:
    """The sandbox of this machine. Where it has none the tests fail: they would prove nothing."""
    return find_sandbox("/usr/bin:/bin")


class Said(Struct, frozen=True, kw_only=True):
    """What came of a run."""

    ended: CodeEnded
    text: str


async def run_code(
    workspace: Path,
    code: str,
    *,
    language: Language = "bash",
    seconds: float = 60,
    stop: asyncio.Event | None = None,
    sandbox: Sandbox | None = None,
    limits: SandboxLimits | None = None,
    on_output: Callable[[str], Any] = lambda _: None,
) -> Said:
    """Run code to its end, and collect what it says."""
    sandbox = sandbox or await asyncio.to_thread(real_sandbox)
    if limits is not None:
        sandbox = sandbox.within(limits)
    said = bytearray()

    async def take(output: bytes) -> None:
        said.extend(output)
        on_output(output.decode(errors="replace"))

    run = CodeRun(language=language, code=code, workspace=workspace, seconds=seconds)
    ended = await sandbox.run(run, stop=stop or asyncio.Event(), output=take)
    return Said(ended=ended, text=said.decode(errors="replace"))


class Marked:
    """A name for processes, by which they can be counted from outside of the sandbox."""

    def __init__(self) -> None:
        self.name = f"marked-{secrets.token_hex(8)}"

    def sleeper(self, *, ready: str = "ready") -> str:
        """Bash that starts three processes which try to outlive it, says so, and waits."""
        start = f"exec -a {self.name} sleep 600"
        return (
            f"setsid -f bash -c '{start}' </dev/null >/dev/null 2>&1\n"
            f"(trap '' HUP TERM INT; {start}) >/dev/null 2>&1 &\n"
            f"while [ $(grep -cla {self.name} /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -lt 2 ]; do :; done\n"
            f"echo {ready}\n"
            f"{start}\n"
        )

    async def count(self) -> int:
        """How many of them run now."""
        return await asyncio.to_thread(self._count)

    async def gone(self) -> None:
        """Wait until none runs any more; the test's own deadline ends it."""
        while await self.count():  # noqa: ASYNC110 - processes tell nobody when they end
            await asyncio.sleep(0.02)

    def _count(self) -> int:
        return sum(self.name in _words(process) for process in psutil.process_iter())


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
