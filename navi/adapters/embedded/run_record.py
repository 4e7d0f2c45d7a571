"""Where a running navi and its servers listen, for other commands on the same data directory.

``run.json`` is that of the process that owns the directory, ``runs/`` holds those of nodes that were given
their servers: of these there may be several, on several machines.
"""

import fcntl
import os
import secrets
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from navi.adapters.embedded.lock import is_held

FILE_NAME = "run.json"
NODES = "runs"


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """A process of a service that has several.

    Attributes:
        process: its seat, counted from 1.
        pid: null while there is none.
        node: its id in events.
        since: when it began to take work.
        restarts: how often it had to be started again.
    """

    process: int
    pid: int | None
    node: str | None
    since: str | None
    restarts: int


class RunRecord(Struct, frozen=True, kw_only=True):
    """What other commands need to attach to a process.

    Attributes:
        database_given: whether its Postgres was given to it, and not started by it.
        nats_given: likewise.
        processes: where it serves with several; ``pid`` is that of their supervisor.
    """

    pid: int
    database_url: str | None = None
    database_given: bool = False
    nats_url: str | None = None
    nats_given: bool = False
    http_url: str | None = None
    version: str | None = None
    model_backend: str | None = None
    model_name: str | None = None
    model_window: int | None = None
    model_slots: int | None = None
    processes: tuple[ProcessRecord, ...] = ()


class NodeRun:
    """The record of a node that was given its servers; locked as long as its process lives."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, data_dir: Path) -> Self:
        """An empty record; those that dead processes of this machine left are removed. Blocks."""
        home = data_dir / NODES
        home.mkdir(mode=0o700, exist_ok=True)
        for path, run in _node_runs(home):
            if run is None:
                path.unlink(missing_ok=True)
        while True:
            # Two containers may have one host name and, in each, this pid.
            path = home / f"{_machine()}.{os.getpid()}-{secrets.token_hex(4)}.json"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody looks whether it is a dead one's
                path.unlink(missing_ok=True)
            else:
                # Another node that starts may have taken it for a dead one's before it was locked.
                if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
                    return cls(path, descriptor)
            os.close(descriptor)

    def write(self, run: RunRecord) -> None:
        """Write the record in place: the lock is on this very file."""
        data = msgspec.json.encode(run)
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def close(self) -> None:
        """Remove the record."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def record_run(data_dir: Path, run: RunRecord) -> None:
    """Write the record whole or not at all, readable by its owner only: it holds the NATS token."""
    path = data_dir / FILE_NAME
    draft = path.with_name(f"{FILE_NAME}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(run))
    draft.replace(path)


def read_run(data_dir: Path) -> RunRecord | None:
    """The record of the process that owns the directory now, else of a node that works on it; or None.

    None also where the owner is just starting: it removes the record of the run before it.
    """
    return _owners_run(data_dir) if is_held(data_dir) else read_node_run(data_dir)


def read_node_run(data_dir: Path) -> RunRecord | None:
    """The record of a node of this machine that was given its servers and serves; the latest of several."""
    found = [run for _, run in _node_runs(data_dir / NODES) if run is not None]
    serving = [run for run in found if run.http_url is not None]
    return serving[-1] if serving else None


def forget_run(data_dir: Path) -> None:
    """Remove the record; only the owner of the directory may do so."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)


def _owners_run(data_dir: Path) -> RunRecord | None:
    try:
        return msgspec.json.decode((data_dir / FILE_NAME).read_bytes(), type=RunRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _node_runs(home: Path) -> Iterator[tuple[Path, RunRecord | None]]:
    """The records of this machine's nodes, the oldest first; None for one whose process is gone."""
    paths: list[tuple[float, Path]] = []
    for path in home.glob(f"{escape(_machine())}.*.json"):
        try:
            paths.append((path.stat().st_mtime, path))
        except FileNotFoundError:
            continue
    for _, path in sorted(paths):
        with _opened(path) as descriptor:
            if descriptor is None:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path, _decoded(descriptor)
            else:
                yield path, None


@contextmanager
def _opened(path: Path) -> Generator[int | None, None, None]:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _decoded(descriptor: int) -> RunRecord:
    data = os.pread(descriptor, 1024 * 1024, 0)
    try:
        return msgspec.json.decode(data, type=RunRecord)
    except msgspec.MsgspecError:  # it is just being written
        return RunRecord(pid=0)


def _machine() -> str:
    """The name of this machine: the directory may be shared by several."""
    return socket.gethostname().replace("/", "_") or "localhost"
