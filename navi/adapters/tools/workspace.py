"""A session's directory, opened so that no path escapes it.

Every path is walked component by component from an open directory, links never followed. That holds
against a link that is swapped in between two looks at it, which no check of a path's text does: the
agent's own tools may run beside us and write there. ``openat2`` (RESOLVE_BENEATH, NO_SYMLINKS) would
save system calls and promise nothing more, so there is one way for all kernels.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from msgspec import Struct

from navi.domain import uploads
from navi.domain.tools.tool_output import OWN_DIRECTORY
from navi.domain.vocabulary.errors import NaviError

MAX_ENTRIES = 20_000  # files and directories that are looked at
MAX_DEPTH = 32  # directories inside one another
COPIED_BYTES = 1024 * 1024  # at a time

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that was swapped in would hold us until somebody writes to it.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PathForbidden(NaviError):
    """A rule forbids this path; the message says which."""


class WorkspaceFull(NaviError):
    """The file or the workspace would grow beyond its limit."""


class WorkspaceLimits(Struct, frozen=True, kw_only=True):
    """How large a workspace may become through navi's own tools, in bytes and files."""

    file: int = 16 * 1024 * 1024
    workspace: int = 512 * 1024 * 1024
    files: int = 10_000


class DirectoryEntry(Struct, frozen=True, kw_only=True):
    """A file or directory; ``path`` is relative to the workspace."""

    path: str
    kind: str  # "file", "directory", or "other" for links, pipes, devices
    size: int
    changed: float  # seconds since the epoch


class Listing(Struct, frozen=True, kw_only=True):
    """What stands in a directory, sorted by name, and how many entries more than ``MAX_ENTRIES``."""

    entries: tuple[DirectoryEntry, ...]
    more: int


class Workspace:
    """An open session directory; a context manager. All methods block: use them in a thread."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def open_file(self, path: str) -> int:
        """A descriptor for reading a regular file; the caller closes it.

        Raises:
            PathForbidden: it lies outside, or is a link, a hard link, a pipe or a device.
            OSError: it does not exist or cannot be read.
        """
        parents, name = _split_name(path)
        with self._directory(parents) as directory:
            return _open_regular(name, _READ, directory, path)

    def listing(self, path: str) -> Listing:
        """What stands in a directory.

        Raises:
            PathForbidden: as for ``open_file``.
            OSError: it is not a directory, or does not exist.
        """
        parts = split_path(path)
        found: list[DirectoryEntry] = []
        more = 0
        with self._directory(parts) as directory, os.scandir(directory) as scan:
            for item in scan:
                if len(found) >= MAX_ENTRIES:
                    more += 1
                    continue
                with suppress(FileNotFoundError):  # gone since the scan began
                    found.append(_entry("/".join((*parts, item.name)), item))
        return Listing(entries=tuple(sorted(found, key=lambda entry: entry.path)), more=more)

    def files(
        self, path: str, *, not_all: Callable[[], None] = lambda: None
    ) -> Generator[DirectoryEntry, None, None]:
        """Regular files at and below ``path``, depth first, sorted; without navi's own unless named.

        Args:
            not_all: called where there is more than ``MAX_ENTRIES``, and some are passed over.
        """
        parts = split_path(path)
        if parts:
            with self._directory(parts[:-1]) as directory:
                status = os.stat(parts[-1], dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield _described("/".join(parts), status)
                return
        waiting = ["/".join(parts)]
        seen = 0
        while waiting:
            directory = waiting.pop()
            inner: list[str] = []
            try:
                listing = self.listing(directory)
            except (PathForbidden, OSError):
                if seen:
                    continue  # swapped or removed meanwhile
                raise
            if listing.more:
                not_all()
            for entry in listing.entries:
                seen += 1
                if seen > MAX_ENTRIES:
                    not_all()
                    return
                if entry.kind == "file":
                    yield entry
                elif entry.kind == "directory" and _is_searched(entry.path):
                    inner.append(entry.path)
            waiting.extend(reversed(inner))

    def write(self, path: str, data: bytes, *, limits: WorkspaceLimits) -> bool:
        """Put a file in place whole or not at all; gives whether it is new.

        Raises:
            PathForbidden: as for ``open_file``.
            WorkspaceFull: a limit would be passed; nothing is written.
            OSError: it cannot be written.
        """
        parents, name = _split_name(path)
        with (
            self._directory(parents, create=True) as directory,
            self._directory((OWN_DIRECTORY,), create=True) as own,
        ):
            before = _regular_status(name, directory, path)
            self._check_room(len(data), limits, replaced=before.st_size if before else None)
            temporary = f"{secrets.token_hex(8)}.tmp"
            descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=own)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    # Else a power cut after the rename leaves an empty file under the old name.
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=own, dst_dir_fd=directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=own)
                raise
            return before is None

    def create(self, path: str) -> int:
        """A descriptor for writing a new file, which no limit bounds; the caller closes it.

        Raises:
            PathForbidden, OSError: as for ``write``; also where there is one already.
        """
        parents, name = _split_name(path)
        with self._directory(parents, create=True) as directory:
            return os.open(name, _CREATE, 0o600, dir_fd=directory)

    def append(self, path: str, data: bytes, *, limits: WorkspaceLimits) -> int:
        """Write at the end of a file, which is made where there is none; gives its new size.

        Raises:
            PathForbidden, WorkspaceFull, OSError: as for ``write``.
        """
        parents, name = _split_name(path)
        with self._directory(parents, create=True) as directory:
            before = _regular_status(name, directory, path)
            size = (before.st_size if before else 0) + len(data)
            if size > limits.file:
                raise WorkspaceFull(f"{path} would be {size:,} bytes; {limits.file:,} are allowed")
            self._check_room(len(data), limits, replaced=0 if before else None)
            if before is None:
                descriptor = os.open(name, _CREATE, 0o600, dir_fd=directory)
            else:
                descriptor = _open_regular(name, _APPEND, directory, path)
            with os.fdopen(descriptor, "ab") as file:
                file.write(data)
            return size

    def take(self, path: str, source: int) -> None:
        """Make a new file of what an open descriptor gives, which is closed.

        Not made durable one by one, and only for a workspace that nobody uses yet.

        Raises:
            PathForbidden, OSError: as for ``write``; no part of the file is left.
        """
        with os.fdopen(source, "rb") as reader:
            parents, name = _split_name(path)
            with self._directory(parents, create=True) as directory:
                mode = stat.S_IMODE(os.fstat(source).st_mode) & 0o700
                descriptor = os.open(name, _CREATE, mode | 0o600, dir_fd=directory)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        shutil.copyfileobj(reader, file, COPIED_BYTES)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=directory)
                    raise

    def check_free(self, path: str) -> None:
        """See that ``adopt`` can put a file there.

        Raises:
            PathForbidden, OSError: as ``adopt``.
        """
        parents, name = _split_name(path)
        with self._directory(parents, create=True) as directory:
            _require_replaceable(name, directory, path)
        os.fsync(self._root)  # the directories outlive a power cut as the file does

    def adopt(self, path: str, name: str, directory: int) -> None:
        """Move a durable file that lies outside into its place, where it replaces a file or a link.

        Args:
            name: of the file in the open ``directory``, on the same file system.

        Raises:
            PathForbidden: a directory of the path is a link, or a directory stands there.
            OSError: it cannot be moved.
        """
        parents, target = _split_name(path)
        with self._directory(parents, create=True) as place:
            _require_replaceable(target, place, path)
            os.rename(name, target, src_dir_fd=directory, dst_dir_fd=place)
            os.fsync(place)

    def remove(self, path: str) -> None:
        """Remove a file or a link; nothing where there is none.

        Raises:
            PathForbidden: a directory of the path is a link.
            OSError: a directory stands there, or it cannot be removed.
        """
        parents, name = _split_name(path)
        with suppress(FileNotFoundError), self._directory(parents) as directory:
            os.unlink(name, dir_fd=directory)

    def make_directory(self, path: str) -> None:
        """See that a directory is there.

        Raises:
            PathForbidden, OSError: as for ``write``.
        """
        with self._directory(split_path(path), create=True):
            pass

    @contextmanager
    def _directory(
        self, parts: tuple[str, ...], *, create: bool = False
    ) -> Generator[int, None, None]:
        if create and len(parts) > MAX_DEPTH:
            raise PathForbidden(
                f"{len(parts):,} directories inside one another are too many; {MAX_DEPTH} are allowed"
            )
        current = os.dup(self._root)
        try:
            for depth, part in enumerate(parts, start=1):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=current)
                inner = _open_directory(part, current, "/".join(parts[:depth]))
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)

    def _check_room(self, size: int, limits: WorkspaceLimits, *, replaced: int | None) -> None:
        if size > limits.file:
            raise WorkspaceFull(
                f"{size:,} bytes are too many for a file; {limits.file:,} are allowed"
            )
        files, total = 0, 0
        for directory in ("", OWN_DIRECTORY):
            with suppress(FileNotFoundError):
                for entry in self.files(directory):
                    if not is_upload(entry.path):  # they have a limit of their own
                        files, total = files + 1, total + entry.size
        if total - (replaced or 0) + size > limits.workspace:
            raise WorkspaceFull(
                f"the session's directory would be larger than {limits.workspace:,} bytes"
            )
        if replaced is None and files >= limits.files:
            raise WorkspaceFull(f"the session's directory has {limits.files:,} files already")


def split_path(path: str) -> tuple[str, ...]:
    """The components of a relative path; empty for the workspace itself.

    Raises:
        PathForbidden: it is absolute or points upwards.
    """
    if "\0" in path:
        raise PathForbidden("a path has no NUL in it")
    if path.startswith("/"):
        raise PathForbidden(f"{path!r} is absolute; paths are relative to the session's directory")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts:
        raise PathForbidden(f"{path!r} leaves the session's directory")
    return parts


def is_own(path: str) -> bool:
    """Whether the path is navi's own part of a workspace."""
    return _is_below(OWN_DIRECTORY, path)


def is_upload(path: str) -> bool:
    """Whether the path is in the part of a workspace where the user's uploads are."""
    return _is_below(uploads.DIRECTORY, path)


def _is_below(directory: str, path: str) -> bool:
    parts = split_path(path)
    # A file system that folds case takes .NAVI for the same directory.
    return bool(parts) and parts[0].casefold() == directory


def _is_searched(directory: str) -> bool:
    return directory.casefold() != OWN_DIRECTORY and directory.count("/") < MAX_DEPTH


def _split_name(path: str) -> tuple[tuple[str, ...], str]:
    parts = split_path(path)
    if not parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return parts[:-1], parts[-1]


def _open_directory(name: str, parent: int, path: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        # Kernels differ in what they say about a link here: ELOOP or ENOTDIR.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            with suppress(OSError):
                if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    raise PathForbidden(f"{path} is a link; links are not followed") from error
        raise


def _open_regular(name: str, flags: int, directory: int, path: str) -> int:
    # Looked at before it is opened, because opening a device can already do something.
    if _regular_status(name, directory, path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise PathForbidden(f"{path} is not a regular file") from error
        raise
    try:
        _check_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_replaceable(name: str, directory: int, path: str) -> None:
    """A link or a pipe is replaced itself, whatever it points to; a directory is not."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise PathForbidden(f"{path} is a directory")


def _regular_status(name: str, directory: int, path: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(status, path)
    return status


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(status.st_mode):
        raise PathForbidden(f"{path} is a link; links are not followed")
    if not stat.S_ISREG(status.st_mode):
        raise PathForbidden(f"{path} is not a regular file")
    if status.st_nlink > 1:
        # The other name may stand outside; from here nobody can tell.
        raise PathForbidden(f"{path} has a second name (a hard link)")


def _entry(path: str, item: os.DirEntry[str]) -> DirectoryEntry:
    return _described(path, item.stat(follow_symlinks=False))


def _described(path: str, status: os.stat_result) -> DirectoryEntry:
    return DirectoryEntry(
        path=path, kind=_kind_of(status.st_mode), size=status.st_size, changed=status.st_mtime
    )


def _kind_of(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"
