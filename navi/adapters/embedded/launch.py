"""Runs in the child, before the server: becomes another user where asked, and dies with navi.

A program of its own, not a ``preexec_fn``: Python code between fork and exec can deadlock in a
process with threads. Imports the standard library only, since it is run with ``-I -S``.

    launch.py PARENT_PID SIGNAL IDENTITY PROGRAM [ARGUMENT ...]
"""

import ctypes
import os
import sys

NOBODY = 65534
CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1
EXIT_REFUSED = 97  # tells navi that the identity is not to be had here


def main(arguments: list[str]) -> None:
    """Replace this process by the server."""
    parent, signal_number, identity, *program = arguments
    try:
        _become(identity)
        if sys.platform == "linux":
            # After the change of user, which the kernel answers by forgetting the signal.
            _call(_libc().prctl, PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    except OSError as error:
        print(f"navi: cannot start as {identity}: {error}", file=sys.stderr)  # noqa: T201  # the log
        sys.exit(EXIT_REFUSED)
    if os.getppid() != int(parent):
        sys.exit(0)  # navi died before the signal was set
    os.umask(0o077)
    os.execv(program[0], program)  # noqa: S606  # no shell is wanted


def _become(identity: str) -> None:
    if identity == "namespace":
        # Without a mapping the process is not root to itself, yet its files are still root's.
        _call(_libc().unshare, CLONE_NEWUSER)
    elif identity == "nobody":
        # One capability is kept, so that a data directory below /root is reached without opening
        # /root to everybody.
        _call(_libc().prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        mask = 1 << CAP_DAC_OVERRIDE
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        # Two structs of effective, permitted, inheritable: the low and the high 32 capabilities.
        _call(_libc().capset, header, (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0))
        _call(_libc().prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: "ctypes._FuncPointer", *arguments: object) -> None:  # pyright: ignore[reportPrivateUsage]  # the type has no public name
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(sys.argv[1:])
