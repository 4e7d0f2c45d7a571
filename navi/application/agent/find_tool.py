"""Find the tool of a call, also where what offers it is just being started."""

import asyncio

from navi.application.agent.model_calls.model_queue import any_set
from navi.ports.tools import Tool, ToolBox

LOOK_SECONDS = 0.1  # between two looks for a tool that may come


async def find_tool(tools: ToolBox, name: str, halt: asyncio.Event) -> Tool | None:
    """The tool of that name; one that may soon come is waited for until ``halt`` is set.

    After a start of navi, or an edit of the file of MCP servers, calls are gone on with that the
    model made before, while the servers of their tools have yet to say what they offer.
    """
    while tools.starting(name) and not halt.is_set():
        await any_set(halt, within=LOOK_SECONDS)
    return tools.find(name)
