"""Packages from npm for tests, at the versions and hashes of a ``package-lock.json``."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from tests.support.event_consumer import NODE, NPM

INSTALL_SECONDS = 200.0


def installed(packages: Path) -> Path:
    """A copy of a directory with its packages beside it; made once for a virtual environment.

    Args:
        packages: a directory with ``package.json`` and ``package-lock.json``.
    """
    files = sorted(path for path in packages.iterdir() if path.is_file())
    name = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    place = Path(sys.prefix) / f"{packages.name.replace('_', '-')}-{name}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as directory:
            made = Path(directory, "made")
            shutil.copytree(packages, made)
            done = subprocess.run(
                [NODE, NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=made,
                env=os.environ,  # noqa: TID251  # how this machine reaches its registry is its own affair
                capture_output=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            with suppress(OSError):  # somebody else was faster
                made.rename(place)
    return place
