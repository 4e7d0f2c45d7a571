"""Attacks on the sandbox, tried from within: what a hostile program would do first.

Run as code in the sandbox, behind a line ``TARGETS = {...}`` with what outside is worth an attack. Each
attack that gets through raises ``GotThrough``; every other end of it is a denial. One line of JSON an
attack goes to standard output. Standard library only.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import termios
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypedDict

MEBIBYTE = 1024 * 1024
SECONDS = 2.0  # for a connection that is not refused at once


class Targets(TypedDict):
    """What is worth an attack outside of the sandbox."""

    secret_file: str
    secret: str
    pid: int
    tcp_port: int
    udp_port: int
    unix_path: str
    abstract_name: str


class GotThrough(Exception):
    """The attack did what must not be possible; the message says what."""


Attack = Callable[[Targets], str]
ATTACKS: dict[str, Attack] = {}


def attack(words: str) -> Callable[[Attack], Attack]:
    """Register an attack; it gives how it was denied, or raises ``OSError``, which says so too."""

    def register(function: Attack) -> Attack:
        ATTACKS[words] = function
        return function

    return register


# --- files ---


@attack("read a file of navi's")
def _(targets: Targets) -> str:
    raise GotThrough(Path(targets["secret_file"]).read_text()[:40])


@attack("read the passwords of the system")
def _(targets: Targets) -> str:
    raise GotThrough(Path("/etc/shadow").read_text()[:20])


@attack("read the environment of another process")
def _(targets: Targets) -> str:
    for process in _processes():
        try:
            found = Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            continue
        if targets["secret"].encode() in found:
            raise GotThrough(f"process {process}")
    return "none that is seen has it"


@attack("find a secret in its own environment")
def _(targets: Targets) -> str:
    if targets["secret"] in os.environ.values():
        raise GotThrough("it was inherited")
    names = [name for name in os.environ if any(w in name for w in ("KEY", "TOKEN", "PASSWORD"))]
    if names:
        raise GotThrough(", ".join(names))
    return "there is none"


@attack("use a descriptor that was left open")
def _(targets: Targets) -> str:
    with os.scandir("/proc/self/fd") as scan:
        found = {int(entry.name) for entry in scan}
    left = [fd for fd in found - {0, 1, 2} if _is_open(fd)]
    if left:
        raise GotThrough(", ".join(os.readlink(f"/proc/self/fd/{fd}") for fd in left))
    return "there is none"


@attack("write to the system")
def _(targets: Targets) -> str:
    places = ("/", "/usr", "/usr/bin", "/etc", "/code", "/dev", "/proc/sys/kernel", "/proc/1")
    return _none_works(*((lambda at=at: _create(f"{at}/planted")) for at in places))


@attack("change the system's settings")
def _(targets: Targets) -> str:
    files = ("kernel/core_pattern", "user/max_user_namespaces", "vm/overcommit_memory")
    return _none_works(
        *((lambda at=at: Path(f"/proc/sys/{at}").write_text("1000")) for at in files),
        lambda: Path("/proc/sysrq-trigger").write_text("h"),
    )


@attack("change an upload")
def _(targets: Targets) -> str:
    return _none_works(*_replacing("uploads"))


@attack("change navi's own files in the workspace")
def _(targets: Targets) -> str:
    return _none_works(*_replacing(".navi"))


@attack("give a file outside a second name inside")
def _(targets: Targets) -> str:
    return _none_works(
        lambda: os.link("/usr/bin/env", "second"), lambda: os.link("/etc/passwd", "second")
    )


@attack("open a file by its number on the disk")
def _(targets: Targets) -> str:
    return _none_works(_shut((304, 265), -100, 0, 0))


@attack("make a device")
def _(targets: Targets) -> str:
    kinds = (stat.S_IFBLK, stat.S_IFCHR)
    return _none_works(
        *((lambda kind=kind: os.mknod("device", kind | 0o600, os.makedev(8, 0))) for kind in kinds),
        lambda: os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(0, 0)),
    )


@attack("leave a file that runs as its owner")
def _(targets: Targets) -> str:
    Path("own").touch()
    try:
        return _none_works(
            lambda: os.chmod("own", 0o4755),
            lambda: os.chmod("own", 0o2755),
            lambda: os.close(os.open("own2", os.O_CREAT | os.O_WRONLY, 0o4755)),
            lambda: os.mknod("own3", stat.S_IFREG | 0o4755),
        )
    finally:
        os.unlink("own")


@attack("hold up whoever opens a file, by a lease")
def _(targets: Targets) -> str:
    with open("leased", "w+b") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    raise GotThrough("the lease was given")


# --- network ---


@attack("connect to a server of this machine")
def _(targets: Targets) -> str:
    with socket.create_connection(("127.0.0.1", targets["tcp_port"]), timeout=SECONDS):
        raise GotThrough("connected")


@attack("connect to the outside")
def _(targets: Targets) -> str:
    for address in (("192.0.2.1", 80), ("1.1.1.1", 53), ("169.254.169.254", 80)):
        try:
            with socket.create_connection(address, timeout=SECONDS):
                raise GotThrough(f"connected to {address[0]}")
        except OSError as error:
            if error.errno != errno.ENETUNREACH:
                raise GotThrough(f"there is a way to {address[0]}: {error}") from error
    return "no network is reachable"


@attack("send a datagram to this machine")
def _(targets: Targets) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(SECONDS)
        udp.connect(("127.0.0.1", targets["udp_port"]))
        udp.send(b"ping")
        udp.recv(16)
    raise GotThrough("it was answered")


@attack("connect to a Unix socket by its path")
def _(targets: Targets) -> str:
    _connect_unix(targets["unix_path"])
    raise GotThrough("connected")


@attack("connect to an abstract Unix socket")
def _(targets: Targets) -> str:
    _connect_unix("\0" + targets["abstract_name"])
    raise GotThrough("connected")


@attack("speak to the host of a virtual machine")
def _(targets: Targets) -> str:
    with socket.socket(40, socket.SOCK_STREAM):  # AF_VSOCK
        raise GotThrough("there is a socket for it")


@attack("speak to the kernel by netlink, packets or raw sockets")
def _(targets: Targets) -> str:
    return _none_works(
        lambda: socket.socket(16, socket.SOCK_RAW, 0).close(),  # AF_NETLINK
        lambda: socket.socket(17, socket.SOCK_RAW, 0).close(),  # AF_PACKET
        lambda: socket.socket(38, socket.SOCK_SEQPACKET, 0).close(),  # AF_ALG
        lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    )


# --- other processes ---


@attack("see other processes")
def _(targets: Targets) -> str:
    own = {1, os.getpid(), os.getppid()}
    others = [process for process in _processes() if process not in own]
    if others:
        raise GotThrough(f"{len(others)} of them")
    return "there are only its own"


@attack("send a signal to navi")
def _(targets: Targets) -> str:
    if targets["pid"] in _processes():
        return "a process of its own has that number"
    os.kill(targets["pid"], 0)
    raise GotThrough("it would have arrived")


@attack("trace another process")
def _(targets: Targets) -> str:
    attach = 16
    return _none_works(_shut((101, 117), attach, os.getppid(), 0, 0))


@attack("read the memory of another process")
def _(targets: Targets) -> str:
    return _none_works(
        _shut((310, 270), os.getppid(), 0, 0, 0, 0, 0),
        lambda: open("/proc/1/mem", "rb").read(1),
    )


@attack("type into navi's terminal")
def _(targets: Targets) -> str:
    return _none_works(
        lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"),
        lambda: os.close(os.open("/dev/tty", os.O_RDWR)),
    )


# --- rights ---


@attack("become root")
def _(targets: Targets) -> str:
    status = Path("/proc/self/status").read_text()
    rights = [line for line in status.splitlines() if line.startswith("Cap")]
    if any(int(line.split()[1], 16) for line in rights):
        raise GotThrough("it has capabilities")
    if "NoNewPrivs:\t1" not in status:
        raise GotThrough("a program may give it rights")
    return _none_works(lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]))


@attack("make a namespace of its own")
def _(targets: Targets) -> str:
    user, mounts, network = 0x10000000, 0x20000, 0x40000000
    return _none_works(
        *(_shut((272, 97), kind) for kind in (user, mounts, network)),
        lambda: _cloned(user | signal.SIGCHLD),
        _shut((308, 268), 0, 0),  # setns
    )


@attack("mount something")
def _(targets: Targets) -> str:
    text = ctypes.c_char_p
    return _none_works(
        _shut((165, 40), text(b"none"), text(b"/tmp"), text(b"tmpfs"), 0, 0),
        _shut((166, 39), text(b"/workspace/uploads"), 2),
        _shut((430, 430), text(b"tmpfs"), 0),  # fsopen
        _shut((428, 428), -100, text(b"/"), 1),  # open_tree
        _shut((161, 51), text(b"/tmp")),  # chroot
        _shut((155, 41), text(b"/tmp"), text(b"/tmp")),  # pivot_root
    )


@attack("load a program into the kernel")
def _(targets: Targets) -> str:
    return _none_works(
        _shut((321, 280), 0, 0, 0),  # bpf
        _shut((175, 105), 0, 0, 0),  # init_module
        _shut((313, 273), -1, 0, 0),  # finit_module
        _shut((246, 104), 0, 0, 0, 0),  # kexec_load
    )


@attack("use io_uring")
def _(targets: Targets) -> str:
    return _none_works(_shut((425, 425), 4, ctypes.create_string_buffer(256)))


@attack("use the kernel's keys")
def _(targets: Targets) -> str:
    text = ctypes.c_char_p
    return _none_works(
        _shut((250, 219), 0, -3, 0),  # keyctl
        _shut((248, 217), text(b"user"), text(b"name"), text(b"value"), 5, -3),
    )


@attack("watch the processor, or its own page faults")
def _(targets: Targets) -> str:
    return _none_works(
        _shut((298, 241), ctypes.create_string_buffer(128), 0, -1, -1, 0),
        _shut((323, 282), 0),
    )


@attack("set the clock, the host's name, restart the machine")
def _(targets: Targets) -> str:
    text = ctypes.c_char_p
    return _none_works(
        _shut((164, 170), ctypes.create_string_buffer(16), 0),
        _shut((170, 161), text(b"planted"), 7),
        _shut((169, 142), 0xFEE1DEAD, 672274793, 0, 0),  # Ctrl-Alt-Del off: changes nothing
    )


@attack("call the kernel by its other doors")
def _(targets: Targets) -> str:
    doors = [_shut((9_999, 9_999))]
    if platform.machine() == "x86_64":
        doors.append(_shut((0x40000000 + 39, 0)))  # getpid of x32
        doors.append(_old_door)
    return _none_works(*doors)


@attack("start the host's program for crashes")
def _(targets: Targets) -> str:
    return _none_works(
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (MEBIBYTE, MEBIBYTE)),
    )


# --- more than its share ---


@attack("start processes without end")
def _(targets: Targets) -> str:
    started: list[int] = []
    reader, writer = os.pipe()
    try:
        while len(started) < 200:
            child = os.fork()
            if child == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            started.append(child)
    except BlockingIOError:
        return f"{len(started)} were started"
    finally:
        os.close(writer)
        os.close(reader)
        for child in started:
            os.waitpid(child, 0)
    raise GotThrough(f"{len(started)} were started")


@attack("take more memory than it has")
def _(targets: Targets) -> str:
    return _none_works(lambda: mmap.mmap(-1, 1536 * MEBIBYTE).close())


@attack("take memory that no process shows")
def _(targets: Targets) -> str:
    return _none_works(
        _shut((319, 279), ctypes.c_char_p(b"hidden"), 0),  # memfd_create
        _shut((29, 194), 0, 4096, 0o1600),  # shmget
        _shut((68, 186), 0, 0o1600),  # msgget
        lambda: resource.setrlimit(resource.RLIMIT_AS, (4096 * MEBIBYTE, 4096 * MEBIBYTE)),
    )


@attack("write a file that is too large, or says so")
def _(targets: Targets) -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("large", "wb") as file:
        try:
            return _none_works(
                lambda: os.truncate(file.fileno(), 1 << 40),
                lambda: os.pwrite(file.fileno(), b"x", 1 << 40),
                lambda: os.posix_fallocate(file.fileno(), 0, 65 * MEBIBYTE),
            )
        finally:
            os.unlink("large")


@attack("open files without end")
def _(targets: Targets) -> str:
    opened: list[int] = []
    try:
        while len(opened) < 5_000:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        if error.errno == errno.EMFILE:
            return f"{len(opened)} were opened"
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)
    raise GotThrough(f"{len(opened)} were opened")


@attack("fill the memory by files")
def _(targets: Targets) -> str:
    sizes: dict[str, int] = {}
    for place in ("/tmp", "/dev/shm"):
        found = os.statvfs(place)
        sizes[place] = found.f_blocks * found.f_frsize
    if any(size > 512 * MEBIBYTE for size in sizes.values()):
        raise GotThrough(f"there is room for {sizes}")
    return "there is no room for it"


# --- how ---


def _processes() -> Generator[int, None, None]:
    with os.scandir("/proc") as scan:
        yield from (int(entry.name) for entry in scan if entry.name.isdigit())


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))


def _replacing(directory: str) -> tuple[Callable[[], object], ...]:
    return (
        lambda: _create(f"{directory}/planted"),
        lambda: os.chmod(directory, 0o777),
        lambda: os.rename(directory, "elsewhere"),
        lambda: os.rmdir(directory),
        lambda: os.rename("/workspace", "/elsewhere"),
    )


def _connect_unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.settimeout(SECONDS)
        unix.connect(address)


def _none_works(*tries: Callable[[], object]) -> str:
    """Try all; the way in which the first was denied."""
    denials: list[str] = []
    for number, one in enumerate(tries, start=1):
        try:
            one()
        except (OSError, ValueError, MemoryError, OverflowError) as error:
            denials.append(str(error) or type(error).__name__)
        else:
            raise GotThrough(f"way {number} of {len(tries)}")
    return denials[0]


def _shut(numbers: tuple[int, int], *arguments: object) -> Callable[[], object]:
    """A system call that must be refused before the kernel looks at its arguments."""

    def call() -> None:
        try:
            _call(numbers, *arguments)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                raise
            raise GotThrough(f"call {numbers} is open: {error}") from error

    return call


def _call(numbers: tuple[int, int], *arguments: object) -> int:
    """Make a system call by its number on x86_64 or aarch64."""
    number = numbers[0] if platform.machine() == "x86_64" else numbers[1]
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _cloned(flags: int) -> None:
    child = _call((56, 220), flags, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _old_door() -> None:
    """Call the kernel as 32-bit programs do, in a process that may be killed for it."""
    child = os.fork()
    if child == 0:
        code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        found = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0 if found > 0 else 1)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise PermissionError(errno.EPERM, f"ended with status {status}")


def try_all(targets: Targets, names: tuple[str, ...] | None = None) -> None:
    """Try the attacks, and print a line for each."""
    for words, function in ATTACKS.items():
        if names is not None and words not in names:
            continue
        try:
            held, how = True, function(targets)
        except GotThrough as error:
            held, how = False, str(error)
        except (OSError, MemoryError) as error:
            held, how = True, str(error)
        except Exception as error:  # noqa: BLE001 - an attack that cannot be made proves nothing
            held, how = False, f"it could not be tried: {error!r}"
        print(json.dumps({"attack": words, "held": held, "how": how}), flush=True)
