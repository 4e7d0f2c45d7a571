"""MCP servers from npm, at the versions and hashes of ``mcp_packages/package-lock.json``."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.event_consumer import NODE, NPM

PACKAGES = Path(__file__).with_name("mcp_packages")
INSTALL_SECONDS = 200.0


def installed() -> Path:
    """Where the packages are; installed once for a virtual environment and a lock."""
    lock = sha256((PACKAGES / "package-lock.json").read_bytes()).hexdigest()[:16]
    place = Path(sys.prefix) / f"mcp-packages-{lock}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as directory:
            made = Path(directory, "made")
            shutil.copytree(PACKAGES, made)
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
    return place / "node_modules" / "@modelcontextprotocol"


def npm_server(packages: Path, name: str, *args: str, **more: Any) -> dict[str, Any]:
    """The entry of a server from npm."""
    program = str(packages / f"server-{name}" / "dist" / "index.js")
    return {"command": str(NODE), "args": [program, *args], **more}
