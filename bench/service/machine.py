"""What the processes of a service use."""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil
from msgspec import Struct

from navi.cli.service import node_process

MIB = 1024 * 1024
NODE = node_process.__name__


class Used(Struct, frozen=True, kw_only=True):
    """Processor time since each began, in seconds, by what the processes are."""

    at: float
    seconds: dict[str, float]

    def shares(self, before: "Used") -> dict[str, float]:
        """How much of one core each took in between."""
        took = self.at - before.at
        return {
            name: (seconds - before.seconds.get(name, 0.0)) / took
            for name, seconds in self.seconds.items()
        }


def used(navi: int, model: int) -> Used:
    """Of navi, its Postgres and NATS, the model server and the clients, which are this process."""
    own = psutil.Process(navi)
    seconds = {
        "navi": _seconds(nodes_of(navi)),
        "Postgres": _seconds(_named(own, "postgres")),
        "NATS": _seconds(_named(own, "nats-server")),
        "model": _seconds([psutil.Process(model)]),
        "clients": _seconds([psutil.Process()]),
    }
    return Used(at=time.monotonic(), seconds=seconds)


def memory_of(pid: int) -> float:
    """Resident memory of a process and of its nodes, where it has some; in MiB."""
    return sum(process.memory_info().rss for process in nodes_of(pid)) / MIB


def nodes_of(pid: int) -> list[psutil.Process]:
    """A navi: the process that was started, and those of its nodes where it has several."""
    own = psutil.Process(pid)
    return [own, *(one for one in own.children() if NODE in _arguments(one))]


def memory_of_nats(navi: int) -> float:
    """The same of the NATS that a navi has started."""
    return sum(p.memory_info().rss for p in _named(psutil.Process(navi), "nats-server")) / MIB


def files_of(pid: int) -> int:
    """How many file descriptors a process has open, sockets too."""
    return psutil.Process(pid).num_fds()


def threads_of(pid: int) -> int:
    return psutil.Process(pid).num_threads()


def processor_of(pid: int, name: str) -> float:
    """Seconds of processor that the children of a process have taken that have a name and run yet."""
    return _seconds(_named(psutil.Process(pid), name))


def backends_of(navi: int) -> int:
    """How many processes its Postgres runs: one a connection, and its own few."""
    return len(_named(psutil.Process(navi), "postgres"))


def machine() -> str:
    """What this runs on, in a line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    memory = psutil.virtual_memory().total / 1024**3
    return f"{psutil.cpu_count()} cores ({model}), {memory:.0f} GiB"


def _named(root: psutil.Process, name: str) -> list[psutil.Process]:
    return [child for child in root.children(recursive=True) if _name(child) == name]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _seconds(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
