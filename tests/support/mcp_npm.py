"""MCP servers from npm, at the versions and hashes of ``mcp_packages/package-lock.json``."""

from pathlib import Path
from typing import Any

from tests.support.event_consumer import NODE
from tests.support.npm_packages import installed as installed_packages

PACKAGES = Path(__file__).with_name("mcp_packages")


def installed() -> Path:
    """Where the packages are; installed once for a virtual environment and a lock."""
    return installed_packages(PACKAGES) / "node_modules" / "@modelcontextprotocol"


def npm_server(packages: Path, name: str, *args: str, **more: Any) -> dict[str, Any]:
    """The entry of a server from npm."""
    program = str(packages / f"server-{name}" / "dist" / "index.js")
    return {"command": str(NODE), "args": [program, *args], **more}
