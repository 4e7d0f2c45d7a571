"""The processes that a process has started, and theirs."""

import os
import signal
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")  # Linux; elsewhere nothing is found, and a process group has to do
MOST_ROUNDS = 20  # of looking for processes that were started while others were killed


def descendants(pid: int) -> frozenset[int]:
    """The processes below one, ended ones that nobody has waited for too."""
    children: dict[int, list[int]] = {}
    for directory in PROC.iterdir() if PROC.is_dir() else ():
        if directory.name.isdigit() and (parent := _parent(directory)) is not None:
            children.setdefault(parent, []).append(int(directory.name))
    found: set[int] = set()
    above = [pid]
    while above:
        for child in children.get(above.pop(), ()):
            found.add(child)
            above.append(child)
    return frozenset(found)


def kill_with_descendants(pid: int) -> None:
    """Kill the leader of a process group, the group, and all that is below the leader."""
    # While it stands it starts nothing more, and what loses its parent still comes to be its child.
    _send(pid, signal.SIGSTOP)
    kill_descendants(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def kill_descendants(pid: int) -> None:
    """Kill all that is below a process, but not itself."""
    killed = frozenset[int]()
    for _ in range(MOST_ROUNDS):
        left = descendants(pid) - killed
        if not left:
            break
        for each in left:
            _send(each, signal.SIGKILL)
        killed |= left


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _parent(directory: Path) -> int | None:
    try:
        stat = (directory / "stat").read_bytes()
    except OSError:  # it has ended meanwhile
        return None
    # The name of the program stands in parentheses, and may hold any.
    return int(stat.rpartition(b")")[2].split()[1])
