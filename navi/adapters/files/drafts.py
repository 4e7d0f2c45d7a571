"""Drafts of uploads: written, synced, and locked by their process."""

import asyncio
import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from navi.domain.vocabulary.errors import DiskFull, FilesUnavailable
from navi.failpoints import failpoint
from navi.ports.uploads import Digest

P = ParamSpec("P")
T = TypeVar("T")

_UNFINISHED = ".part"
_FINISHED = re.compile(r"(?P<sha256>[0-9a-f]{64})\.[0-9a-f]{32}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileDraft:
    """The port ``Draft``: a file of a random name where only navi writes, locked while it is open."""

    def __init__(self, directory: Path) -> None:
        """Make it; blocks."""
        token = secrets.token_hex(16)
        self._token = token
        self._name = f"{token}{_UNFINISHED}"
        self._left = False
        self._hash = hashlib.sha256()
        self._size = 0
        make_durably(directory)
        self._directory = os.open(directory, _DIRECTORY)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._name, flags, 0o600, dir_fd=self._directory)
            self._file = os.fdopen(descriptor, "wb", buffering=0)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._directory)
            raise

    async def write(self, data: bytes) -> None:
        await failpoint("upload.write")
        await finished(self._write, data)

    async def finish(self) -> Digest:
        return await finished(self._finish)

    def leave(self) -> None:
        self._left = True

    @property
    def place(self) -> tuple[str, int]:
        """Its name, and the open directory that it is in."""
        return self._name, self._directory

    def end(self) -> None:
        """Release the draft, and remove it unless it was put in place; blocks."""
        if not self._left:
            with suppress(OSError):  # gone to its place, or else the sweep finds it
                os.unlink(self._name, dir_fd=self._directory)
        self._file.close()
        os.close(self._directory)

    def _write(self, data: bytes) -> None:
        with translated():
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._hash.update(data)
        self._size += len(data)

    def _finish(self) -> Digest:
        digest = Digest(size_bytes=self._size, sha256=self._hash.hexdigest())
        with translated():
            os.fsync(self._file.fileno())
            name = f"{digest.sha256}.{self._token}"
            os.rename(self._name, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._name = name
            os.fsync(self._directory)
        return digest


class AbandonedDraft:
    """A draft whose process has died."""

    def __init__(self, name: str, directory: int, *, changed: float) -> None:
        found = _FINISHED.fullmatch(name)
        self.name = name
        self.directory = directory
        self.changed = changed  # seconds since the epoch
        self.sha256 = None if found is None else found["sha256"]

    def remove(self) -> None:
        """Drop it."""
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.directory)


def drafts_in(directory: Path) -> Generator[AbandonedDraft, None, None]:
    """The drafts that no process holds, each locked until the next is asked for; blocks."""
    try:
        opened = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for name in sorted(os.listdir(opened)):  # noqa: PTH208 - by descriptor
            with _locked(name, opened) as status:
                if status is not None:
                    yield AbandonedDraft(name, opened, changed=status.st_mtime)
    finally:
        os.close(opened)


@contextmanager
def _locked(name: str, directory: int) -> Generator[os.stat_result | None, None, None]:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError:
        yield None  # gone meanwhile
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield os.fstat(descriptor)
    finally:
        os.close(descriptor)


def make_durably(directory: Path) -> None:
    """Make a directory, and sync its entry."""
    if directory.is_dir():
        return
    make_durably(directory.parent)
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


async def finished(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a blocking call gives, run in a thread; who is cancelled meanwhile waits for its end.

    Else a file would be closed under the thread that writes to it.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


@contextmanager
def translated() -> Generator[None, None, None]:
    """Errors of the file system as the port knows them."""
    try:
        yield
    except OSError as error:
        words = error.strerror or str(error)
        if error.errno in _FULL:
            raise DiskFull(f"no room is left in the files directory: {words}") from error
        raise FilesUnavailable(f"the files directory: {words}") from error
