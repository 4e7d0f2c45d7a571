"""Run code in the sandbox: what is started, what it is told, and how it ended."""

import asyncio
import copy
import marshal
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, cast

from msgspec import Struct

from navi.adapters.sandbox import keeper
from navi.adapters.sandbox.bubblewrap import (
    CODE,
    Bubblewrap,
    Interpreter,
    find_bubblewrap,
    find_interpreter,
    layout,
)
from navi.adapters.sandbox.keeper_protocol import Ended, EndedBy, Task
from navi.adapters.sandbox.seccomp import seccomp_filter
from navi.domain import uploads
from navi.domain.tools.tool_output import OWN_DIRECTORY
from navi.ports.tools import StopSignal

MEBIBYTE = 1024 * 1024
# Nobody's: no user, and no range that systems give out, has it (systemd.io/UIDS-GIDS).
SANDBOX_UID = 61_000
READ_BYTES = 64 * 1024
END_SECONDS = 10.0  # for the keeper to have ended the call; a killed one takes it along, too

Language = Literal["python", "bash"]
TakeOutput = Callable[[bytes], Awaitable[None]]


class SandboxLimits(Struct, frozen=True, kw_only=True):
    """The bounds of a call, in bytes where nothing else is said."""

    memory: int = 1024 * MEBIBYTE  # of all its processes and files in memory together
    processes: int = 64
    open_files: int = 256  # of a process
    file: int = 64 * MEBIBYTE
    workspace: int = 1024 * MEBIBYTE


class CodeRun(Struct, frozen=True, kw_only=True):
    """Code, and where and how long it may run."""

    language: Language
    code: str
    workspace: Path
    seconds: float


class CodeEnded(Struct, frozen=True, kw_only=True):
    """How code ended.

    Attributes:
        status: the exit status, 128 and more for a signal; None where it was ended.
        ended_by: the bound that it met, or the stop; None where it ended itself.
        memory: the most bytes that were seen in use.
        workspace_bytes: what the workspace takes on disk.
        full: nothing could be written, because the workspace had no room when the call began.
    """

    status: int | None
    ended_by: EndedBy | None
    memory: int
    workspace_bytes: int
    full: bool


class SandboxFault(Exception):
    """The code could not be run; the message says why."""


class Sandbox:
    """Runs code in bubblewrap; each call has a keeper process of its own."""

    def __init__(
        self,
        bubblewrap: Bubblewrap,
        interpreter: Interpreter,
        *,
        packages: Path | None = None,
        limits: SandboxLimits | None = None,
    ) -> None:
        self._bubblewrap = bubblewrap
        self._interpreter = interpreter
        self._limits = limits or SandboxLimits()
        self._layout = layout(
            interpreter,
            packages,
            own=(OWN_DIRECTORY, uploads.DIRECTORY),
            system_calls=seccomp_filter(os.uname().machine),
        )

    @property
    def words(self) -> str:
        """Which programs it is made of."""
        version = ".".join(str(part) for part in self._bubblewrap.version)
        return f"{self._bubblewrap.path} {version}, {self._interpreter.program}"

    def within(self, limits: SandboxLimits) -> "Sandbox":
        """The same with other bounds."""
        other = copy.copy(self)
        other._limits = limits
        return other

    async def run(self, run: CodeRun, *, stop: StopSignal, output: TakeOutput) -> CodeEnded:
        """Run code; standard output and error go to ``output`` as they come, in one stream.

        When this returns, or is cancelled, nothing of the call is left.

        Raises:
            SandboxFault: it could not be run.
        """
        ours, theirs = socket.socketpair()
        # A pipe, which the event loop would not always make of its own accord: a socket leads two ways.
        reading, writing = os.pipe()
        with ours, os.fdopen(reading, "rb", buffering=0) as pipe:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *("-I", "-S", keeper.__file__),
                    stdin=theirs.fileno(),
                    stdout=writing,
                    stderr=writing,
                    env={},
                    start_new_session=True,  # untouched by Ctrl-C: navi ends it in its own order
                )
            finally:
                theirs.close()
                os.close(writing)
            async with _reader(pipe) as reader:
                return await self._attend(process, ours, reader, run, stop, output)

    async def _attend(
        self,
        process: asyncio.subprocess.Process,
        control: socket.socket,
        reader: asyncio.StreamReader,
        run: CodeRun,
        stop: StopSignal,
        output: TakeOutput,
    ) -> CodeEnded:
        control.setblocking(False)
        told = asyncio.create_task(_tell(control, self._task(run)))
        answer = asyncio.create_task(_hear(control))
        stopping = asyncio.ensure_future(stop.wait())
        pumping = asyncio.create_task(_pump(reader, output))
        tasks: set[asyncio.Future[Any]] = {told, answer, stopping, pumping}
        try:
            await _until_one_ends(answer, stopping, pumping)
            if not answer.done():
                control.shutdown(socket.SHUT_WR)
                await asyncio.wait({answer}, timeout=END_SECONDS)
            if not answer.done():
                raise SandboxFault("the call did not end when it was told to")
            await pumping  # its other end is closed: it ends with what is in the pipe
            return _understood(answer.result())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            control.close()
            await _gone(process)

    def _task(self, run: CodeRun) -> Task:
        program = str(self._interpreter.program) if run.language == "python" else "/bin/bash"
        return Task(
            uid=SANDBOX_UID if os.geteuid() == 0 else None,
            bwrap=(
                str(self._bubblewrap.path),
                tuple(str(path) for path in self._bubblewrap.directories),
            ),
            arguments=self._layout.arguments,
            command=(program, CODE),
            workspace=str(run.workspace.absolute()),
            own=(OWN_DIRECTORY, uploads.DIRECTORY),
            read_only=self._layout.read_only,
            files={**self._layout.files, "code": run.code.encode("utf-8", "replace")},
            memory=self._limits.memory,
            processes=self._limits.processes,
            open_files=self._limits.open_files,
            file_bytes=self._limits.file,
            workspace_bytes=self._limits.workspace,
            seconds=run.seconds,
        )


def find_sandbox(search_path: str | None, *, packages: Path | None = None) -> Sandbox:
    """The sandbox of this machine; whether it holds is for its attacks to show. Blocks.

    Raises:
        NoBubblewrap, UnknownMachine: there is none here; the message says why.
    """
    return Sandbox(find_bubblewrap(search_path), find_interpreter(), packages=packages)


async def _tell(control: socket.socket, task: Task) -> None:
    raw = marshal.dumps(task)  # pyright: ignore[reportArgumentType] - plain values
    with suppress(OSError):  # it has ended already: its answer, or the lack of one, says why
        await asyncio.get_running_loop().sock_sendall(control, len(raw).to_bytes(8, "big") + raw)


async def _hear(control: socket.socket) -> bytes:
    loop, pieces = asyncio.get_running_loop(), bytearray()
    with suppress(OSError):
        while piece := await loop.sock_recv(control, READ_BYTES):
            pieces += piece
    return bytes(pieces)


@asynccontextmanager
async def _reader(pipe: IO[bytes]) -> AsyncGenerator[asyncio.StreamReader, None]:
    reader = asyncio.StreamReader(limit=READ_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader
    finally:
        transport.close()


async def _pump(reader: asyncio.StreamReader, output: TakeOutput) -> None:
    while piece := await reader.read(READ_BYTES):
        await output(piece)


def _understood(answer: bytes) -> CodeEnded:
    if not answer:
        raise SandboxFault("the process that keeps the call ended too early")
    ended = cast("Ended", marshal.loads(answer))  # noqa: S302 - from our own program
    if ended["fault"] is not None:
        raise SandboxFault(ended["fault"])
    if ended["status"] is None and ended["ended_by"] is None:
        raise SandboxFault("bubblewrap could not set the sandbox up")
    return CodeEnded(
        status=ended["status"],
        ended_by=ended["ended_by"],
        memory=ended["memory"],
        workspace_bytes=ended["workspace_bytes"],
        full=ended["full"],
    )


async def _until_one_ends(
    answer: asyncio.Task[bytes], stopping: asyncio.Future[object], pumping: asyncio.Task[None]
) -> None:
    """Wait for the end, a stop, or output that nobody takes any more."""
    await asyncio.wait({answer, stopping, pumping}, return_when=asyncio.FIRST_COMPLETED)
    if pumping.done() and pumping.exception() is None:  # the code has shut its output and goes on
        await asyncio.wait({answer, stopping}, return_when=asyncio.FIRST_COMPLETED)


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Wait for the keeper, whose control is closed; also when this is cancelled meanwhile."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        async with asyncio.timeout(END_SECONDS):
            await asyncio.shield(waiting)
    except (TimeoutError, asyncio.CancelledError) as error:
        with suppress(ProcessLookupError):
            process.kill()
        await waiting
        if isinstance(error, asyncio.CancelledError):
            raise
