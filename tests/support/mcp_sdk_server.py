"""An MCP server made with the SDK of the protocol, as people make theirs; run as a program by tests.

Over its standard input and output, or with the argument ``http`` over HTTP: then it prints its port.
"""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def count(to: int, context: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool()
async def learn(context: Context) -> str:
    """Has one more tool from now on."""

    def subtract(a: int, b: int) -> int:
        """Subtracts a number from another."""
        return a - b

    server.add_tool(subtract)
    await context.notify_tools_changed()
    return "learned"


async def over_http() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    if "http" in sys.argv:
        asyncio.run(over_http())
    else:
        server.run()
