"""Keep one call in the sandbox: set it up, watch its bounds, and leave nothing of it behind.

A program of its own, so that the call ends with navi and does not wait for navi's event loop. Its
standard input is a socket on which navi sends one ``Task`` (``marshal``); when navi closes that
socket, by will or by death, the call is killed. The answer is one ``Ended`` (``marshal``).

It starts for every call, so it imports little: each module of the standard library costs as much as
all of bubblewrap. Where navi is root it first makes what the call needs visible to an unprivileged
user, in a mount namespace of its own, and becomes that user.
"""

import _socket
import ctypes
import marshal
import os
import resource
import select
import stat
import sys
import time

# `typing`, `signal` and `socket` take longer to import than all else here together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence

    from navi.adapters.sandbox.keeper_protocol import Ended, EndedBy, Task
else:
    import _signal

BLOCK = 4096  # bytes that a file counts at the least: empty ones need room, too
MAX_DEPTH = 100  # directories inside one another, as far as a workspace is measured
# Kernel memory that no process shows: the buffers of a socket, and what an empty file in memory costs.
SOCKET_BYTES = 212_992
INODE_BYTES = 1024
SMALL_FILE_BYTES = 64 * 1024  # of a file, once the workspace is full
LOOK_SECONDS = 0.02  # between two looks at the memory of a call
MEASURE_SECONDS = 0.5  # between two looks at its workspace, at the least
MEASURE_ANYWAY_SECONDS = 5.0
GROWN_BYTES, GROWN_FILES = 16 * 1024 * 1024, 2_000  # on the disk, that call for a look
KILL_SECONDS = 5.0  # for killed processes to be gone

TEMPORARY = ("tmp", "dev/shm")  # file systems in memory that the code may write to


class Fault(Exception):
    """The call cannot be run; the message says why."""


def main() -> None:
    """Serve the task on standard input."""
    # Some event loops let their children have what is theirs: here it would end up in the sandbox.
    for descriptor in os.listdir("/proc/self/fd"):
        if int(descriptor) > 2:
            _close(int(descriptor))
    control = _socket.socket(fileno=0)
    task = _receive(control)
    if task is None:
        return  # navi has gone before it had said what to do
    try:
        ended = _run(task, control)
    except (Fault, OSError) as error:
        ended = _ended(fault=str(error))
    try:
        control.sendall(marshal.dumps(ended))  # pyright: ignore[reportArgumentType] - plain values
    except OSError:
        pass  # nobody is left to hear it


def _receive(control: _socket.socket) -> "Task | None":
    size = _exactly(control, 8)
    raw = _exactly(control, int.from_bytes(size, "big")) if size else None
    return marshal.loads(raw) if raw else None  # noqa: S302 - navi's own words


def _exactly(control: _socket.socket, size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = control.recv(min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _ended(
    *,
    status: int | None = None,
    ended_by: "EndedBy | None" = None,
    fault: str | None = None,
    memory: int = 0,
    used: int = 0,
    full: bool = False,
) -> "Ended":
    return {
        "status": status,
        "ended_by": ended_by,
        "fault": fault,
        "memory": memory,
        "workspace_bytes": used,
        "full": full,
    }


def _run(task: "Task", control: _socket.socket) -> "Ended":
    # If the machine runs out of memory the kernel ends us first, and not navi or its database.
    _write("/proc/self/oom_score_adj", "1000")
    os.umask(0o077)
    system = _System()
    if task["uid"] is not None:
        _leave_mounts(system)  # first of all: what is opened before cannot be mounted after
    opened = {"workspace": _directory(task["workspace"])}
    for name in task["own"]:
        opened[name] = _own_directory(name, opened["workspace"])
    for name, path in task["read_only"].items():
        opened[name] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    room = _Room(opened["workspace"], task["workspace_bytes"], owner=task["uid"])
    program, directories = task["bwrap"]
    if task["uid"] is not None:
        os.chown(room.directory, task["uid"], task["uid"])
        program = _become(system, task["uid"], opened, program, directories)
        room.directory = opened["workspace"]
    for name, content in task["files"].items():
        opened[name] = _in_memory(name, content)
    full = room.used >= room.limit
    if full:  # room can be made, and not much be taken; what bubblewrap itself writes has to fit
        largest = max(len(content) for content in task["files"].values())
        task["file_bytes"] = max(SMALL_FILE_BYTES, largest)
    sandbox = _Sandbox(task, opened, program)
    try:
        ended_by = _watch(task, sandbox, room, control)
    finally:
        sandbox.end()
        # The code owns its working directory, and may have shut it even against us.
        os.chmod(f"/proc/self/fd/{room.directory}", 0o700)
    room.measure()
    return _ended(
        status=None if ended_by else sandbox.status,
        ended_by=ended_by,
        memory=sandbox.most_memory,
        used=room.used,
        full=full,
    )


class _System:
    """System calls that Python has no function for."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        # Whatever loses its parent in the call becomes our child: to be killed, and to be waited for.
        adopt_orphans = 36
        self._check(self._libc.prctl(adopt_orphans, 1, 0, 0, 0))

    def leave_mounts(self) -> None:
        """Have mounts of our own from here on."""
        new_mounts, recursive, private = 0x20000, 0x4000, 1 << 18
        self._check(self._libc.unshare(new_mounts))
        self.mount("none", "/", None, recursive | private)

    def bind(self, directory: int, place: str) -> None:
        """Make an open directory visible at another place, with what is mounted below it."""
        self.mount(f"/proc/self/fd/{directory}", place, None, 0x1000 | 0x4000)

    def mount(
        self, source: str, target: str, kind: str | None, flags: int, options: str = ""
    ) -> None:
        """The call ``mount``."""
        words = [None if word is None else word.encode() for word in (source, target, kind)]
        self._check(self._libc.mount(*words, ctypes.c_ulong(flags), options.encode()))

    def _check(self, result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# --- what the call is given ---


def _directory(path: str, *, parent: int | None = None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, dir_fd=parent)


def _own_directory(name: str, workspace: int) -> int:
    """A directory that the code cannot put anything in the place of: it is mounted over itself."""
    try:
        os.mkdir(name, 0o700, dir_fd=workspace)
    except FileExistsError:
        pass
    try:
        return _directory(name, parent=workspace)
    except OSError as error:
        raise Fault(f"{name} in the session's directory is no directory") from error


def _in_memory(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _leave_mounts(system: "_System") -> None:
    try:
        system.leave_mounts()
    except OSError as error:
        raise Fault(
            f"navi runs as root without the right to mount ({error.strerror}): run it as another user"
        ) from error


def _become(
    system: "_System",
    uid: int,
    opened: dict[str, int],
    program: str,
    directories: "Sequence[str]",
) -> str:
    """Become another user, to whom just the opened directories and the program are visible.

    Root's directories are closed to others, and stay so: what is needed is mounted once more where
    only this process and its children see it. Gives the program's path there.
    """
    programs = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in directories}
    # Whoever reads /dev/stdout opens the pipe once more, which its owner may.
    for descriptor in (1, 2):
        os.fchown(descriptor, uid, uid)
    try:
        system.mount("tmpfs", "/tmp", "tmpfs", 0, "mode=0755,size=65536")
        for path, descriptor in programs.items():
            place = f"/tmp/{os.path.basename(path)}"
            os.mkdir(place, 0o755)
            system.bind(descriptor, place)
            os.close(descriptor)
        for name, descriptor in opened.items():
            place = f"/tmp/{name}"
            os.mkdir(place, 0o755)
            system.bind(descriptor, place)
            os.close(descriptor)
    except OSError as error:
        raise Fault(
            f"the workspace could not be shown to another user: {error.strerror}"
        ) from error
    for name in opened:
        opened[name] = _directory(f"/tmp/{name}")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    for path in directories:
        if program.startswith(path + "/"):
            return f"/tmp/{os.path.basename(path)}{program[len(path) :]}"
    return program


# --- the call itself ---


class _Sandbox:
    """Bubblewrap and what it runs, from the start to the last process."""

    def __init__(self, task: "Task", opened: dict[str, int], program: str) -> None:
        status, status_end = os.pipe()
        block_end, self._begin = os.pipe()
        arguments, arguments_end = os.pipe()
        opened = {**opened, "status": status_end, "block": block_end}
        for descriptor in (*opened.values(), arguments):
            os.set_inheritable(descriptor, True)
        self._status = status
        self._said = b""
        self.status: int | None = None
        self.most_memory = 0
        self._first: int | None = None  # the first process in the sandbox, as we see its number
        self._first_handle = -1
        self._processes: int | None = None  # /proc of the sandbox, which lists what is in it only
        self._temporary: list[int] = []
        self._root = os.stat("/").st_dev
        pid = os.fork()
        if pid == 0:
            _execute(task, program, arguments)
        for descriptor in (*opened.values(), arguments):
            if descriptor != opened["workspace"]:
                os.close(descriptor)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)  # else the output never ends for who reads it
        self.handle = os.pidfd_open(pid)
        named = {f"{{{name}}}": str(descriptor) for name, descriptor in opened.items()}
        words = [named.get(word, word) for word in task["arguments"]]
        try:
            with open(arguments_end, "wb") as pipe:
                pipe.write(b"".join(word.encode() + b"\0" for word in words))
            self._await_first(task["processes"])
        except (OSError, Fault):
            self.end()
            raise

    def _await_first(self, processes: int) -> None:
        """Wait until all is set up, and let the code begin."""
        while self._first is None:
            piece = os.read(self._status, 4096)
            if not piece:
                raise Fault("bubblewrap could not set the sandbox up")
            self._said += piece
            self._first = _number(self._said, b'"child-pid": ')
        self._first_handle = os.pidfd_open(self._first)
        # Inside its namespace: there the kernel counts the call's own processes, and no other ones
        # of the same user.
        resource.prlimit(self._first, resource.RLIMIT_NPROC, (processes, processes))
        os.write(self._begin, b"x")
        os.close(self._begin)

    def memory(self) -> int:
        """Bytes in use by the call: its processes, its files in memory, its sockets."""
        if self._processes is None:
            self._look_inside()
        if self._processes is None:
            return 0  # it is still being set up, or has ended
        numbers = [name for name in _names(self._processes) if name.isdigit()]
        used = sum(self._resident(number) for number in numbers)
        for directory in self._temporary:
            found = os.fstatvfs(directory)
            used += (found.f_blocks - found.f_bfree) * found.f_frsize
            used += (found.f_files - found.f_ffree) * INODE_BYTES
        used += self._sockets() * SOCKET_BYTES
        self.most_memory = max(self.most_memory, used)
        return used

    def exactly(self) -> int:
        """The same, with what processes share counted once; dear."""
        assert self._processes is not None  # noqa: S101 - after ``memory``
        numbers = [name for name in _names(self._processes) if name.isdigit()]
        rough = sum(self._resident(number) for number in numbers)
        return self.memory() - rough + sum(self._proportional(number) for number in numbers)

    def _look_inside(self) -> None:
        root = f"/proc/{self._first}/root"
        try:
            # Until all is mounted its root is ours, or an empty one.
            if os.stat(root).st_dev == self._root or not os.path.isdir(f"{root}/proc/1"):
                return
            self._processes = os.open(f"{root}/proc", os.O_RDONLY | os.O_DIRECTORY)
            self._temporary = [os.open(f"{root}/{name}", os.O_PATH) for name in TEMPORARY]
        except FileNotFoundError:
            return

    def _resident(self, number: str) -> int:
        # statm: pages of the address space, resident, shared, ...
        fields = _read(f"{number}/statm", self._processes).split()
        return int(fields[1]) * resource.getpagesize() if len(fields) > 1 else 0

    def _proportional(self, number: str) -> int:
        found = _number(_read(f"{number}/smaps_rollup", self._processes), b"\nPss:")
        return self._resident(number) if found is None else found * 1024

    def _sockets(self) -> int:
        return _number(_read("1/net/sockstat", self._processes), b"sockets: used") or 0

    def ended(self) -> bool:
        """Whether the code has come to its end; ``status`` says how."""
        return bool(select.select([self.handle], [], [], 0)[0])

    def end(self) -> None:
        """Kill what there is, and wait until it is gone."""
        if self._first_handle >= 0:
            _kill(self._first_handle)  # with it goes all of its namespace
        if select.select([self.handle], [], [], 0 if self._first_handle < 0 else 1.0)[0]:
            while piece := os.read(self._status, 4096):
                self._said += piece
            self.status = _number(self._said, b'"exit-code": ')
        _kill(self.handle)
        deadline = time.monotonic() + KILL_SECONDS
        try:
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.001)
        except ChildProcessError:
            pass  # none is left


def _execute(task: "Task", program: str, arguments: int) -> None:
    """In the new process: take the limits and become bubblewrap."""
    try:
        for limit, value in (
            (resource.RLIMIT_AS, task["memory"]),
            (resource.RLIMIT_NOFILE, task["open_files"]),
            (resource.RLIMIT_FSIZE, task["file_bytes"]),
            (resource.RLIMIT_MEMLOCK, 65_536),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_CORE, 1),  # 0 does not keep the kernel from a program that takes cores
        ):
            resource.setrlimit(limit, (value, value))
        os.nice(5)  # navi goes first
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.execve(program, ["bwrap", "--args", str(arguments), "--", *task["command"]], {})
    finally:
        os._exit(127)


def _watch(
    task: "Task", sandbox: "_Sandbox", room: "_Room", control: _socket.socket
) -> "EndedBy | None":
    """Wait for the end; gives why the call has to be ended, or None where it ended itself."""
    deadline = time.monotonic() + task["seconds"]
    while True:
        wait = min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))
        ready, _, _ = select.select([control, sandbox.handle], [], [], wait)
        if control in ready:
            return "stop"  # it says nothing more: only its end can be read
        if sandbox.ended():
            return None
        if time.monotonic() >= deadline:
            return "time"
        if sandbox.memory() > task["memory"] and sandbox.exactly() > task["memory"]:
            return "memory"
        if room.overrun():
            return "workspace"


class _Room:
    """What a workspace takes of the disk, measured no more often than it changes."""

    def __init__(self, directory: int, limit: int, *, owner: int | None) -> None:
        self.directory = directory
        self.used = 0
        self.measure(owner)
        self.limit = limit
        self._started_with = self.used
        self._was = self._disk()
        self._next = self._anyway = 0.0
        self._plan(0.0)

    def measure(self, owner: int | None = None) -> None:
        """Measure it; what others own is given to ``owner``."""
        self.used = _measure(self.directory, owner)

    def overrun(self) -> bool:
        """Whether it has grown beyond its limit, as far as it is time to look."""
        now = time.monotonic()
        if now < self._next:
            return False
        blocks, files = self._disk()
        grown = self._was[0] - blocks > GROWN_BYTES or self._was[1] - files > GROWN_FILES
        if not grown and now < self._anyway:
            return False
        self._was = (blocks, files)
        self.measure()
        self._plan(time.monotonic() - now)
        return self.used > max(self.limit, self._started_with)

    def _plan(self, took: float) -> None:
        now = time.monotonic()
        self._next = now + max(MEASURE_SECONDS, 4 * took)
        self._anyway = now + max(MEASURE_ANYWAY_SECONDS, 20 * took)

    def _disk(self) -> tuple[int, int]:
        found = os.fstatvfs(self.directory)
        return found.f_bfree * found.f_frsize, found.f_ffree


def _measure(top: int, owner: int | None) -> int:
    """Bytes on disk of all below an open directory; endless where it is nested too deeply.

    Never follows a link, and never needs a path: code that runs meanwhile may move things about.
    """
    used = 0
    stack = [(os.dup(top), _names(top))]
    try:
        while stack:
            directory, names = stack[-1]
            if not names:
                os.close(directory)
                stack.pop()
                continue
            name = names.pop()
            try:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if owner is not None and found.st_uid != owner:
                    os.chown(name, owner, owner, dir_fd=directory, follow_symlinks=False)
                used += max(BLOCK, found.st_blocks * 512)
                if stat.S_ISDIR(found.st_mode):
                    if len(stack) >= MAX_DEPTH:
                        return sys.maxsize
                    inner = _readable(name, directory)
                    stack.append((inner, _names(inner)))
            except OSError:
                continue  # gone meanwhile, or another thing now
    finally:
        for directory, _ in stack:
            os.close(directory)
    return used


def _readable(name: str, parent: int) -> int:
    """A directory, opened, even where the code has shut it against its owner."""
    try:
        return _directory(name, parent=parent)
    except PermissionError:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
        return _directory(name, parent=parent)


# --- small things ---


def _kill(handle: int) -> None:
    try:
        _signal.pidfd_send_signal(handle, _signal.SIGKILL)
    except ProcessLookupError:
        pass


def _number(text: bytes, after: bytes) -> int | None:
    """The whole number that follows a word, once it is there to its end."""
    _, found, rest = text.partition(after)
    rest = rest.lstrip()
    digits = len(rest) - len(rest.lstrip(b"0123456789"))
    return int(rest[:digits]) if found and digits and len(rest) > digits else None


def _names(directory: int) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _read(path: str, parent: int | None) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # the one that the list was read from


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        pass  # some containers forbid it; the bounds hold without


if __name__ == "__main__":
    main()
