"""Processes of navi that are forked from one that has imported it, which takes most of a start.

They are processes like others, with an environment, standard files, signals and an end of their own.
Run as a program, this module is the one they are forked from; it ends with the process that started it,
and those that still run are killed then: nobody else would end them.
"""

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import msgspec

ROOT = Path(__file__).parents[2]
WORD = 4  # bytes of a pid and of a status
STANDARD_FILES = 3


class Request(msgspec.Struct, frozen=True):
    """What to run, as ``python -m`` does; its standard files come beside it."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class ForkedProcess:
    """A process that runs, used as one of `asyncio.subprocess` is."""

    def __init__(self, pid: int, server: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.ensure_future(self._until_told(server))

    async def wait(self) -> int:
        """Until it has ended, its exit status; negative: the signal that ended it."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing where it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # nobody was told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """``kill -9``."""
        self.send_signal(signal.SIGKILL)

    async def _until_told(self, server: socket.socket) -> int:
        with server:
            self.returncode = await _word(server)
        return self.returncode


async def fork(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
) -> ForkedProcess:
    """Start a module of navi, or one that runs navi; the files are descriptors, which stay open here."""
    request = Request(module, arguments, environment)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(_server()))
        encoded = msgspec.json.encode(request)
        sent = socket.send_fds(connection, [encoded], [stdin, stdout, stderr])
        connection.sendall(encoded[sent:])
        connection.shutdown(socket.SHUT_WR)
        connection.setblocking(False)  # it has no name
        return ForkedProcess(await _word(connection), connection)
    except BaseException:
        connection.close()
        raise


async def _word(connection: socket.socket) -> int:
    data = b""
    while len(data) < WORD:
        part = await asyncio.get_running_loop().sock_recv(connection, WORD - len(data))
        assert part, "the fork server has ended"
        data += part
    return int.from_bytes(data, sys.byteorder, signed=True)


@functools.cache
def _server() -> Path:
    """The socket of the fork server, which is started when the first process is asked for."""
    path = Path(tempfile.mkdtemp(prefix="navi-fork-")) / "socket"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    lifeline, held = os.pipe()  # its other end is closed when this process ends, however it does
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.support.fork_server"),
            str(path),
            str(listening.fileno()),
            str(lifeline),
        ],
        cwd=ROOT,
        env={name: os.environ[name] for name in kept if name in os.environ},  # noqa: TID251  # tests have no command line
        pass_fds=(listening.fileno(), lifeline),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    listening.close()
    os.close(lifeline)

    @atexit.register
    def end() -> None:
        os.close(held)
        process.wait()

    return path


class _Server:
    """The process that forks; `run` comes back in each child, with what that one has to run."""

    def __init__(self, listening: socket.socket, lifeline: int) -> None:
        self._listening = listening
        self._lifeline = lifeline
        self._clients: dict[int, socket.socket] = {}  # by pid of their process
        self._children, self._bell = os.pipe()
        os.set_blocking(self._bell, False)  # it has no name
        signal.signal(signal.SIGCHLD, _nothing)  # it rings the bell
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        self._selector = DefaultSelector()
        for file in (listening, lifeline, self._children):
            self._selector.register(file, EVENT_READ)

    def run(self) -> Request | None:
        """Fork what is asked for until nobody is left to ask."""
        while True:
            ready = {key.fileobj for key, _ in self._selector.select()}
            if self._lifeline in ready:
                for pid in self._clients:
                    os.kill(pid, signal.SIGKILL)
                return None
            if self._children in ready:
                os.read(self._children, 4096)
                self._bury()
            if self._listening in ready:
                request = self._fork()
                if request is not None:
                    return request

    def _bury(self) -> None:
        for pid, client in list(self._clients.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._clients[pid]
                with client, contextlib.suppress(OSError):  # nobody waits for it any more
                    client.sendall(_encoded(os.waitstatus_to_exitcode(status)))

    def _fork(self) -> Request | None:
        client, _ = self._listening.accept()
        data, files, _, _ = socket.recv_fds(client, 1 << 16, STANDARD_FILES)
        while part := client.recv(1 << 16):
            data += part
        pid = os.fork()
        if pid == 0:
            self._leave(client, files)
            return msgspec.json.decode(data, type=Request)
        for file in files:
            os.close(file)
        self._clients[pid] = client
        client.sendall(_encoded(pid))
        return None

    def _leave(self, client: socket.socket, files: Sequence[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
        self._selector.close()
        for connection in (client, self._listening, *self._clients.values()):
            connection.close()
        for descriptor in (self._lifeline, self._children, self._bell):
            os.close(descriptor)
        for standard, file in enumerate(files):
            os.dup2(file, standard)
            os.close(file)


def _nothing(number: int, frame: object) -> None:
    del number, frame


def _encoded(word: int) -> bytes:
    return word.to_bytes(WORD, sys.byteorder, signed=True)


def _import_navi() -> None:
    """What commands and the server come with; not what only processes of tools do, which is as much again."""
    from navi import bootstrap, cli
    from navi.cli.shared.command import fast_loop
    from navi.http import app

    for package in (cli, bootstrap):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    fast_loop()  # imports it where there is one
    app.routed()  # the same for all of them
    gc.freeze()  # what is here stays here, so that its pages go on being shared


def _main(path: str, listening: str, lifeline: str) -> None:
    _import_navi()
    request = _Server(socket.socket(fileno=int(listening)), int(lifeline)).run()
    if request is None:
        Path(path).unlink()
        Path(path).parent.rmdir()
        return
    os.environ.clear()  # noqa: TID251  # it is another process's
    os.environ.update(request.environment)  # noqa: TID251
    sys.argv[1:] = request.arguments
    try:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _end(end.code or 0)


def _end(status: int) -> None:
    """End as Python does, but leave the memory to the system.

    Taking everything apart that was imported writes to all the pages that were shared so far, which
    takes longer than most commands. Where the last words cannot be written, Python says so itself.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue] - joins threads, executors too
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        for file in (sys.stdout, sys.stderr):
            file.flush()
        os._exit(status)


if __name__ == "__main__":
    _main(*sys.argv[1:])
