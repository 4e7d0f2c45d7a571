"""Guests of a data directory: they use the owner's servers, so an owner that has the time lets them finish."""

import fcntl
import os
from pathlib import Path

FILE_NAME = "guests.lock"


class AttachLock:
    """A shared lock for each guest; who gets it alone knows that there is none."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, data_dir: Path) -> "AttachLock | None":
        """A guest's lock, or None where the owner is just ending."""
        return cls._take(data_dir, fcntl.LOCK_SH)

    @classmethod
    def close(cls, data_dir: Path) -> "AttachLock | None":
        """The owner's lock, which keeps guests out, or None while there are some."""
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
        """Let the others in; the file stays, as that of the owner's lock does."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
