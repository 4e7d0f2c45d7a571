"""``heads.jsonl`` in the data directory: an append-only file of signed heads, synced line by line."""

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from navi.domain.log.heads import MAX_LINE_BYTES, SignedHead, decode_head

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

    async def end_of(self, line: bytes | None) -> int:
        return await asyncio.to_thread(self._end_of, line)

    async def read(self, offset: int) -> tuple[tuple[bytes, ...], int]:
        return await asyncio.to_thread(self._read, offset)

    def _last(self) -> tuple[SignedHead, bytes] | None:
        self._mend()
        lines = deque((line for line in heads_of(self._path) if self._log_id in line), maxlen=100)
        for line in reversed(lines):
            with suppress(ValueError):  # what somebody wrote into the file is for `navi verify`
                return decode_head(line), line
        return None

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _end_of(self, line: bytes | None) -> int:
        offset = 0
        if line is None:
            return 0
        for each in heads_of(self._path):
            offset += len(each)
            if each == line:
                return offset
        return offset

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


def heads_of(path: Path) -> Iterator[bytes]:
    """The lines of a file of heads with their line breaks; none where there is no file.

    Raises:
        OSError: it cannot be read.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            yield line
