"""Temporary files in memory: a run makes and removes hundreds of thousands, most of database clusters.

ext4 goes past every file that was removed in the last seconds where it makes one, which is half of all
that Postgres costs in the tests of its adapters.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")  # noqa: S108 - in a directory of its own, that nobody else can enter
PREFIX = "navi-run-"
ROOM = 4 * 2**30  # bytes that have to be free; a run takes more than half of them


def keep_in_memory() -> None:
    """Let this process, and what it starts, put temporary files into memory, where there is room.

    `TMPDIR` in the environment takes precedence. What failed tests left stays until the next run.
    """
    if "TMPDIR" in os.environ or not _has_room():  # noqa: TID251  # tests have no cli.py
        return
    _remove_older()
    directory = MEMORY / f"{PREFIX}{os.getpid()}"
    directory.mkdir(mode=0o700)
    os.environ["TMPDIR"] = str(directory)  # noqa: TID251
    tempfile.tempdir = None  # it may have been asked for already
    atexit.register(_remove_unless_kept, directory)


def _has_room() -> bool:
    try:
        system = os.statvfs(MEMORY)
    except OSError:
        return False
    free = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    runs_programs = not system.f_flag & os.ST_NOEXEC
    return free >= ROOM and runs_programs and os.access(MEMORY, os.W_OK)


def _remove_older() -> None:
    """Remove what runs left that were killed, or of which tests failed."""
    for directory in MEMORY.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(directory.name.removeprefix(PREFIX))):
            shutil.rmtree(directory, ignore_errors=True)


def _remove_unless_kept(directory: Path) -> None:
    """Remove it where no file is left, as none is of tests that passed."""
    if not any(files for _, _, files in os.walk(directory)):
        shutil.rmtree(directory)
