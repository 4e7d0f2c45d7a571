"""``heads.jsonl`` in the data directory: an append-only file of signed heads, synced line by line.

Where it has grown long, another one is begun that names all sessions once; the one before it is kept as
``heads.1.jsonl``.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import structlog

from navi.domain.log.heads import MAX_LINE_BYTES, SignedHead, decode_head, link_of

FILE_NAME = "heads.jsonl"
READ_BYTES = 1024 * 1024  # of lines at once

log = structlog.get_logger()


class HeadsFile:
    """``HeadsJournal`` in a file. Lines of several logs may stand in it, each log a chain of its own."""

    def __init__(self, path: Path, *, log_id: str) -> None:
        self._path = path
        self._log_id = log_id.encode()

    async def last(self) -> tuple[SignedHead, bytes] | None:
        return await asyncio.to_thread(self._last)

    async def append(self, line: bytes) -> None:
        await asyncio.to_thread(self._append, line)

    async def end_of(self, line: bytes | None) -> int | None:
        return await asyncio.to_thread(self._end_of, line)

    async def read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        return await asyncio.to_thread(self._read, offset)

    async def size(self) -> int:
        return await asyncio.to_thread(self._size)

    async def begin_anew(self, lines: Sequence[bytes]) -> bool:
        return await asyncio.to_thread(self._begin_anew, lines)

    def _last(self) -> tuple[SignedHead, bytes] | None:
        self._mend()
        return last_head(self._path, self._log_id.decode())

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _begin_anew(self, lines: Sequence[bytes]) -> bool:
        if any(self._log_id not in line for line in heads_of(self._path)):
            return False  # of another log, which nobody signs here now: its lines would be lost
        draft, before = self._path.with_suffix(".draft"), earlier(self._path)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        # At no moment is there no file: whoever is killed here leaves both names on the old one.
        before.unlink(missing_ok=True)
        os.link(self._path, before)
        draft.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return True

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.write(descriptor, line) < len(line):  # what is there of it is removed by `last`
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _end_of(self, line: bytes | None) -> int | None:
        offset = 0
        if line is None:
            return 0
        link = link_of(line).encode()
        for each in heads_of(self._path):
            if offset == 0 and link in each:
                return 0  # the file was begun anew behind it
            offset += len(each)
            if each == line:
                return offset
        return None

    def _read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        if not self._path.exists():
            return (), offset
        with self._path.open("rb") as file:
            file.seek(offset)
            lines = [line for line in file.readlines(READ_BYTES) if line.endswith(b"\n")]
        end = offset + sum(map(len, lines))
        return tuple(line for line in lines if self._log_id in line), end

    def _mend(self) -> None:
        """Remove a last line that a crash cut off; no signature covers it."""
        whole = sum(len(line) for line in heads_of(self._path) if line.endswith(b"\n"))
        if self._path.exists() and self._path.stat().st_size > whole:
            log.warning("heads_file_mended", bytes=self._path.stat().st_size - whole)
            os.truncate(self._path, whole)


def last_head(path: Path, log_id: str) -> tuple[SignedHead, bytes] | None:
    """The last line of a log in a file, read and as it stands; None where there is none."""
    named = log_id.encode()
    lines = deque(
        (line for line in heads_of(path) if named in line and line.endswith(b"\n")), maxlen=100
    )
    for line in reversed(lines):
        with suppress(ValueError):  # what somebody wrote into the file is for `navi verify`
            return decode_head(line), line
    return None


def earlier(path: Path) -> Path:
    """The file of heads before this one."""
    return path.with_suffix(f".1{path.suffix}")


def all_heads(path: Path) -> Iterator[bytes]:
    """The lines of the file of heads before this one, where there is one, and of this one.

    Both as they stand when the first line is read, also where they are begun anew meanwhile.

    Raises:
        OSError: they cannot be read.
    """
    with ExitStack() as stack:
        for file in _opened_both(path, stack):
            yield from _lines_of(file)


def heads_of(path: Path) -> Iterator[bytes]:
    """The lines of a file of heads with their line breaks; none where there is no file.

    Raises:
        OSError: it cannot be read.
    """
    with ExitStack() as stack:
        file = _opened(path, stack)
        if file is not None:
            yield from _lines_of(file)


def _opened_both(path: Path, stack: ExitStack) -> list[BinaryIO]:
    """The files that are there of the one before this one, and this one."""
    while True:
        current = _opened(path, stack)
        before = _opened(earlier(path), stack)
        if current is None or path.stat().st_ino == _inode_of(current):
            break  # else they were begun anew in between, and the one opened first stands before by now
        stack.close()
    if before is not None and current is not None and _inode_of(before) == _inode_of(current):
        before = None  # whoever begins anew was killed, or is at it: both names are of one file
    return [file for file in (before, current) if file is not None]


def _opened(path: Path, stack: ExitStack) -> BinaryIO | None:
    try:
        return stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


def _inode_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line
