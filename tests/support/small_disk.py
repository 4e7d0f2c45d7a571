"""A file system with little room, for tests of a full disk."""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

MEBIBYTE = 1024 * 1024


class SmallDisk:
    """A mounted file system; ``fill`` takes all its room with one file, ``free`` gives it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no byte."""
        with self._ballast.open("ab", buffering=0) as file:
            size = MEBIBYTE
            while size:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, *, mebibytes: int) -> Generator[SmallDisk, None, None]:
    """A tmpfs of a size, mounted at a new directory, while the block runs."""
    path.mkdir()
    assert _mount(path, mebibytes)
    try:
        yield SmallDisk(path)
    finally:
        _ran("umount", "--lazy", str(path))


@cache
def can_mount() -> bool:
    """Whether this user may mount a file system: as root, or with a ``sudo`` that asks nothing."""
    with tempfile.TemporaryDirectory() as path:
        return _mount(Path(path), 1) and _ran("umount", path)


def _mount(path: Path, mebibytes: int) -> bool:
    options = f"size={mebibytes}m,mode=0700,uid={os.geteuid()},gid={os.getegid()}"
    return _ran("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path))


def _ran(*command: str) -> bool:
    allowed = command if os.geteuid() == 0 else ("sudo", "-n", *command)
    try:
        return subprocess.run(allowed, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
