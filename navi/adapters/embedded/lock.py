"""The exclusive lock of a data directory's owner, released when its process ends."""

import fcntl
import os
import time
from pathlib import Path

FILE_NAME = "navi.lock"

# `is_held` takes the lock for a moment, which must not look like an owner to one who is starting.
TIMEOUT = 0.5  # seconds


class DirectoryLock:
    """The exclusive lock on a data directory, held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, data_dir: Path) -> "DirectoryLock | None":
        """The lock, or None where another process holds it. Blocks up to `TIMEOUT`."""
        descriptor = os.open(data_dir / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.02)
            else:
                return cls(descriptor)

    def release(self) -> None:
        """Release the lock; the file stays, because removing it would let two owners in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_held(data_dir: Path) -> bool:
    """Whether a living process owns the directory."""
    try:
        descriptor = os.open(data_dir / FILE_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
