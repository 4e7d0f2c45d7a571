"""The system calls that code in the sandbox may not make, as a program for the kernel's filter.

Everything that ordinary programs call is allowed; refused are the ways out of a sandbox (namespaces,
tracing, keys, io_uring, bpf), memory that no limit counts (memfd, System V, queues), and whatever is newer than this list.
Refused calls answer with an error, so that programs go on without them.
"""

import errno
import struct
from collections.abc import Sequence

# linux/filter.h and linux/seccomp.h
_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_ANY, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000  # calls of the x32 ABI begin here: a second door to all of them

_NEWEST = 450  # set_mempolicy_home_node, Linux 5.17; what came later is answered "no such call"
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Numbers on x86_64 and aarch64; None where there is no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "personality": (135, 92),
    "acct": (163, 89),
    "vhangup": (153, 58),
    "uselib": (134, None),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "set_mempolicy_home_node": (450, 450),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "fcntl": (72, 25),
    "setrlimit": (160, 164),
    "prlimit64": (302, 261),
    "_sysctl": (156, None),
}

# Calls with something in their arguments that decides; all others of the list are refused whole.
_WITH_ARGUMENTS = frozenset(
    [
        "clone",
        "ioctl",
        "socket",
        "chmod",
        "fchmod",
        "fchmodat",
        "open",
        "openat",
        "creat",
        "mknod",
        "mknodat",
        "fcntl",
        "setrlimit",
        "prlimit64",
    ]
)
# "No such call" and not "forbidden": libraries then take the older way, which can be looked into.
_NO_SUCH_CALL = frozenset({"clone3", "openat2", "memfd_create", "memfd_secret"})

_NAMESPACES = 0x7E020080  # CLONE_NEW*: time, mount, cgroup, uts, ipc, user, pid, network
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into the terminal of somebody else
_LEASES = (1024, 1026)  # F_SETLEASE, F_NOTIFY: a lease makes others wait who open the file
_FAMILIES = (1, 2, 10)  # unix, IPv4, IPv6; not vsock, which leads to the host of a virtual machine
_SET_ID = 0o6000  # a file that runs as its owner
_CREATES = 0o100 | 0o20000000  # O_CREAT, and the own bit of O_TMPFILE: else there is no mode
_CORE = 4  # RLIMIT_CORE: at 0 a crash starts the program that the host has for crashes
_FILE_KIND, _CHARACTER, _BLOCK = 0o170000, 0o020000, 0o060000


class UnknownMachine(Exception):
    """There is no list of system calls for this processor."""


def seccomp_filter(machine: str) -> bytes:
    """The filter for a processor, as an array of ``struct sock_filter``.

    Raises:
        UnknownMachine: names it.
    """
    if machine not in _MACHINES:
        raise UnknownMachine(f"there is no system call filter for {machine}")
    column, architecture = _MACHINES[machine]
    program = [
        _load(_ARCHITECTURE),
        _jump(_JUMP_EQUAL, architecture, 1, 0),
        _return(_KILL),
        _load(_NUMBER),
        _jump(_JUMP_GREATER, _NEWEST, 0, 1),  # the x32 ABI lies above, too
        _return(_ERRNO | errno.ENOSYS),
    ]
    for name, numbers in _NUMBERS.items():
        if (number := numbers[column]) is not None:
            body = _refusal(name)
            program += [_jump(_JUMP_EQUAL, number, 0, len(body)), *body]
    program.append(_return(_ALLOW))
    return b"".join(program)


def _refusal(name: str) -> list[bytes]:
    """What follows once the number fits; ends with a return on every way."""
    if name not in _WITH_ARGUMENTS:
        code = errno.ENOSYS if name in _NO_SUCH_CALL else errno.EPERM
        return [_return(_ERRNO | code)]
    match name:
        case "clone":
            return _unless_any(0, _NAMESPACES)
        case "ioctl":
            return _unless_one_of(1, _TERMINAL_INPUT)
        case "fcntl":
            return _unless_one_of(1, _LEASES)
        case "setrlimit":
            return _unless_one_of(0, (_CORE,))
        case "prlimit64":
            return _unless_core_is_set()
        case "socket":
            return _only_one_of(0, _FAMILIES, refused=errno.EAFNOSUPPORT)
        case "chmod" | "fchmod" | "creat":
            return _unless_any(1, _SET_ID)
        case "fchmodat":
            return _unless_any(2, _SET_ID)
        case "open":
            return _unless_created(1)
        case "openat":
            return _unless_created(2)
        case "mknod":
            return _unless_device(1)
        case _:  # mknodat
            return _unless_device(2)


def _unless_any(argument: int, bits: int) -> list[bytes]:
    return [
        _load_argument(argument),
        _jump(_JUMP_ANY, bits, 0, 1),
        _return(_ERRNO | errno.EPERM),
        _return(_ALLOW),
    ]


def _unless_one_of(argument: int, values: Sequence[int]) -> list[bytes]:
    return _compare(argument, values, found=_ERRNO | errno.EPERM, other=_ALLOW)


def _only_one_of(argument: int, values: Sequence[int], *, refused: int) -> list[bytes]:
    return _compare(argument, values, found=_ALLOW, other=_ERRNO | refused)


def _compare(argument: int, values: Sequence[int], *, found: int, other: int) -> list[bytes]:
    tests = [step for value in values for step in (_jump(_JUMP_EQUAL, value, 0, 1), _return(found))]
    return [_load_argument(argument), *tests, _return(other)]


def _unless_created(flags: int) -> list[bytes]:
    return [
        _load_argument(flags),
        _jump(_JUMP_ANY, _CREATES, 1, 0),
        _return(_ALLOW),
        *_unless_any(flags + 1, _SET_ID),
    ]


def _unless_core_is_set() -> list[bytes]:
    """It also tells a limit, where no pointer to a new one is given."""
    new = 2
    return [
        _load_argument(1),
        _jump(_JUMP_EQUAL, _CORE, 0, 4),
        _load_argument(new),
        _jump(_JUMP_EQUAL, 0, 0, 3),
        _load(_ARGUMENTS + 8 * new + 4),
        _jump(_JUMP_EQUAL, 0, 0, 1),
        _return(_ALLOW),
        _return(_ERRNO | errno.EPERM),
    ]


def _unless_device(mode: int) -> list[bytes]:
    return [
        _load_argument(mode),
        _jump(_JUMP_ANY, _SET_ID, 0, 1),
        _return(_ERRNO | errno.EPERM),
        struct.pack("=HBBI", _AND, 0, 0, _FILE_KIND),
        _jump(_JUMP_EQUAL, _CHARACTER, 1, 0),
        _jump(_JUMP_EQUAL, _BLOCK, 0, 1),
        _return(_ERRNO | errno.EPERM),
        _return(_ALLOW),
    ]


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LOAD, 0, 0, offset)


def _load_argument(index: int) -> bytes:
    # The lower half: the kernel takes these arguments as 32 bits, and both machines are little-endian.
    return _load(_ARGUMENTS + 8 * index)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", kind, if_true, if_false, value)


def _return(action: int) -> bytes:
    return struct.pack("=HBBI", _RETURN, 0, 0, action)
