"""Attach locks: processes that use the servers of a data directory, for which its owner waits."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

FILE_NAME = "guests.lock"


class AttachLock:
    """A shared lock of each attached process; its owner takes it exclusively to shut down."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def prepare(cls, data_dir: Path) -> None:
        """Make the file, so that it is the owner's whoever attaches first: one of root's would keep it out."""
        with suppress(FileExistsError):
            (data_dir / FILE_NAME).touch(mode=0o600, exist_ok=False)

    @classmethod
    def acquire(cls, data_dir: Path) -> "AttachLock | None":
        """Attach; None if the owner is shutting down."""
        return cls._take(data_dir, fcntl.LOCK_SH)

    @classmethod
    def close(cls, data_dir: Path) -> "AttachLock | None":
        """Keep others from attaching; None while some are attached."""
        return cls._take(data_dir, fcntl.LOCK_EX)

    @classmethod
    def _take(cls, data_dir: Path, kind: int) -> "AttachLock | None":
        descriptor = os.open(data_dir / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock; the file stays, as that of the owner's lock does."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
