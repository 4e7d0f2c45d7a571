"""Copy a tree that code has filled, and may go on to: with holes, pipes, deep and closed directories.

As in ``trees`` no link is followed, also none that is put in a directory's place meanwhile, and no path is
longer than the kernel takes.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from navi.adapters.files.trees import descend

_BLOCK = 1024 * 1024

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_THROUGH: int = getattr(os, "O_PATH", os.O_RDONLY)  # also what may be entered and not listed
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Failed = Callable[[Path, OSError], None]


class Bounds(Struct, frozen=True, kw_only=True):
    """What is copied at the most.

    Attributes:
        depth: of directories in one another.
        path: bytes, from the target's name on.
        holes: bytes of all files together.
    """

    depth: int
    path: int
    holes: int


UNBOUNDED = Bounds(depth=sys.maxsize, path=sys.maxsize, holes=sys.maxsize)


def copy_tree(
    source: Path, target: Path, *, without: str | None, bounds: Bounds, failed: Failed
) -> None:
    """Copy a file or a directory; links stay links, holes stay holes. Blocks.

    Not copied is what goes away meanwhile, and what is no file, directory or link. The files are as they
    were at moments of their own.

    Args:
        target: where a directory stands already it is added to.
        without: a name in the directory that is not copied.
        failed: told what cannot be copied, by its path from the target's name on; what it raises ends
            all. ``FileExistsError`` where the target has one of that name.

    Raises:
        OSError: the directory of the target cannot be opened.
    """
    with ExitStack() as opened:
        goal = opened.enter_context(_directory(target.parent))
        try:
            origin = opened.enter_context(_directory(source.parent))
        except FileNotFoundError:
            return
        except OSError as error:
            failed(Path(target.name), error)
            return
        _Copying(source.name, origin, target.name, goal, bounds, failed).run(without)


class _Copying:
    """One copy; parts are those of a path below the source, and below the target."""

    def __init__(
        self, source: str, origin: int, target: str, goal: int, bounds: Bounds, failed: Failed
    ) -> None:
        self._source = source
        self._origin = origin
        self._target = target
        self._goal = goal
        self._bounds = bounds
        self._holes_left = bounds.holes
        self._failed = failed
        self._waiting: list[tuple[str, ...]] = []

    def run(self, without: str | None) -> None:
        self._copy((), self._source, self._origin, self._target, self._goal)
        while self._waiting:
            parts = self._waiting.pop()
            with ExitStack() as opened:
                try:
                    origin = opened.enter_context(descend(self._origin, (self._source, *parts)))
                    goal = opened.enter_context(descend(self._goal, (self._target, *parts)))
                    names = sorted(os.listdir(origin))  # noqa: PTH208 - of an open directory
                except OSError as error:
                    self._tell(parts, error)
                    continue
                for name in names:
                    if parts or name != without:
                        self._copy((*parts, name), name, origin, name, goal)

    def _copy(self, parts: tuple[str, ...], name: str, origin: int, copy: str, goal: int) -> None:
        try:
            mode = os.stat(name, dir_fd=origin, follow_symlinks=False).st_mode
            if len(os.fsencode("/".join((self._target, *parts)))) > self._bounds.path:
                raise _refused(errno.ENAMETOOLONG)
            if stat.S_ISDIR(mode):
                if len(parts) >= self._bounds.depth:
                    raise _refused(errno.ENAMETOOLONG)
                with suppress(FileExistsError):
                    os.mkdir(copy, 0o700, dir_fd=goal)
                self._waiting.append(parts)
            elif stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=origin), copy, dir_fd=goal)
            elif stat.S_ISREG(mode):  # a pipe or a socket has nothing to keep
                self._copy_file(name, origin, copy, goal)
        except OSError as error:
            self._tell(parts, error)

    def _copy_file(self, name: str, origin: int, copy: str, goal: int) -> None:
        with _closed_after(os.open(name, _READ, dir_fd=origin)) as source:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                return
            # Code makes a file of exabytes at once, and who reads it, for its hash, reads on for years.
            holes = status.st_size - sum(end - at for at, end in _data(source, status.st_size))
            if holes > self._holes_left:
                raise _refused(errno.EFBIG)
            self._holes_left -= holes
            with _closed_after(os.open(copy, _CREATE, 0o600, dir_fd=goal)) as target:
                try:
                    _write(source, target, status)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(copy, dir_fd=goal)
                    raise

    def _tell(self, parts: tuple[str, ...], error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # gone meanwhile
            self._failed(Path(self._target, *parts), error)


def _write(source: int, target: int, status: os.stat_result) -> None:
    for at, end in _data(source, status.st_size):
        position = at
        while position < end:
            block = os.pread(source, min(_BLOCK, end - position), position)
            if not block:
                break  # cut off meanwhile
            position += os.pwrite(target, block, position)
    os.ftruncate(target, min(status.st_size, os.fstat(source).st_size))
    # Whoever has the copy may read it; it gives nobody his rights.
    os.fchmod(target, status.st_mode & 0o777 | stat.S_IRUSR)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _data(file: int, size: int) -> Generator[tuple[int, int], None, None]:
    """Beginnings and ends of what is no hole, in bytes; all of it where the file system does not tell."""
    position = 0
    while position < size:
        try:
            start = os.lseek(file, position, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.EINVAL:
                yield position, size
            elif error.errno != errno.ENXIO:  # which says that a hole ends it
                raise
            return
        if start < size:
            yield start, min(end, size)
        position = end


def _refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@contextmanager
def _directory(path: Path) -> Generator[int, None, None]:
    with _closed_after(os.open(path, _THROUGH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        yield descriptor


@contextmanager
def _closed_after(descriptor: int) -> Generator[int, None, None]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
