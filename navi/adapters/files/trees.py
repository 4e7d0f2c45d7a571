"""Count and remove directories that code has filled: deep ones, closed ones, with any names.

Neither follows a link, needs a path that is longer than the kernel takes, calls itself for each level, or
holds a directory open for each: code nests directories as deep as it likes.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH: int | None = getattr(os, "O_PATH", None)  # Linux has it
_OPEN_MODE = 0o700
COUNTED_DEPTH = 100


def count_files(directory: Path) -> int:
    """How many entries below a directory are no directories, as far as that can be seen.

    Not counted is what is closed, or deeper than ``COUNTED_DEPTH``.
    """
    count = 0
    try:
        top = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        return 0
    try:
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            with suppress(OSError), descend(top, parts) as current, os.scandir(current) as scan:
                for entry in scan:
                    if not entry.is_dir(follow_symlinks=False):
                        count += 1
                    elif len(parts) < COUNTED_DEPTH:
                        waiting.append((*parts, entry.name))
    finally:
        os.close(top)
    return count


def remove_tree(directory: Path) -> int:
    """Remove a directory and all below it; gives how many entries were no directories.

    Inner directories are first moved to the top, so that each is removed from there. Whoever writes
    to it meanwhile is not waited for: what is gone already is no error.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        top = _opened(str(directory), None)
    except FileNotFoundError:
        return 0
    count = 0
    try:
        # Every round takes a level away from all that is deeper than two.
        while found := _names(top):
            for name in found:
                count += _flatten(name, top)
    finally:
        os.close(top)
    with suppress(FileNotFoundError):
        directory.rmdir()
    return count


@contextmanager
def descend(top: int, parts: tuple[str, ...]) -> Generator[int, None, None]:
    """A directory below an open one, opened; no part of the way may be a link."""
    current = os.dup(top)
    try:
        for part in parts:
            inner = os.open(part, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _flatten(name: str, top: int) -> int:
    """Remove an entry of the top directory; the directories in it become entries of the top."""
    try:
        status = os.stat(name, dir_fd=top, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=top)
            return 1
        inner = _opened(name, top)
    except FileNotFoundError:
        return 0
    count = 0
    try:
        for below in _names(inner):
            with suppress(FileNotFoundError):
                kind = os.stat(below, dir_fd=inner, follow_symlinks=False).st_mode
                if stat.S_ISDIR(kind):
                    os.close(_opened(below, inner))  # it is written to when it is moved
                    moved = f"{secrets.token_hex(16)}.removed"
                    os.rename(below, moved, src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(below, dir_fd=inner)
                    count += 1
    finally:
        os.close(inner)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=top)
    return count


def _names(directory: int) -> list[str]:
    return os.listdir(directory)


def _opened(name: str, parent: int | None) -> int:
    """A directory, opened, also one that code has shut against its owner."""
    if _PATH is None:
        os.chmod(name, _OPEN_MODE, dir_fd=parent, follow_symlinks=False)
        return os.open(name, _DIRECTORY, dir_fd=parent)
    handle = os.open(name, _PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) & _OPEN_MODE != _OPEN_MODE:
            Path(f"/proc/self/fd/{handle}").chmod(_OPEN_MODE)  # by name it would follow a link
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)
