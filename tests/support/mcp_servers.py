"""MCP servers as tests start them: by a file, as a user would."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from navi.adapters.tools.mcp.server import ServerDelays
from navi.adapters.tools.mcp.servers import McpServers
from navi.adapters.tools.mcp.tool import McpTool
from navi.domain.vocabulary.events import Json
from navi.ports.tools import ToolResult
from tests.support.allowed_tools import SharedLog
from tests.support.tool_context import context_in

PROGRAM = Path(__file__).with_name("mcp_program.py")
SECONDS = 90.0  # for servers to start on a busy machine
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "NAVI_SECRET": "not for servers",
    "SHARED": "for one",
    "TICKETS_TOKEN": "t1ck3ts-0f-mine",
    "LICENCE": "number 0815",
}
DELAYS = ServerDelays(first_pause=0.05, ready=SECONDS)


def small(*args: str, **more: Any) -> dict[str, Any]:
    """The entry of a small server."""
    return {"command": sys.executable, "args": [str(PROGRAM), *args], **more}


def write(file: Path, **servers: Any) -> Path:
    """The file that names these servers."""
    file.write_bytes(msgspec.json.encode({"mcpServers": servers}))
    return file


@asynccontextmanager
async def started(
    directory: Path, *, delays: ServerDelays = DELAYS, **servers: Any
) -> AsyncGenerator[McpServers]:
    """These servers, once each is up or could not be started."""
    file = write(directory / "mcp.json", **servers)
    async with McpServers(
        file, allowed=SharedLog().node(), environment=ENVIRONMENT, delays=delays
    ) as running:
        await running.settled(seconds=SECONDS)
        yield running


def tool_of(servers: McpServers, name: str) -> McpTool:
    """The tool that is offered under a name."""
    return next(tool for tool in servers.tools() if tool.description.name == name)


def names_of(servers: McpServers) -> list[str]:
    """The names under which tools are offered."""
    return [tool.description.name for tool in servers.tools()]


async def call(servers: McpServers, tool: str, workspace: Path, /, **arguments: Json) -> ToolResult:
    """The result of a call."""
    return await tool_of(servers, tool).run(arguments, context_in(workspace))
