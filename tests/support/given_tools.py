"""Tools of a test, beside those that a process has anyway."""

from collections.abc import Sequence

from navi.ports.tools import Tool, UnavailableTool


class GivenTools:
    """The port ``ToolSource``: these tools, from the start to the end."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def unavailable(self) -> Sequence[UnavailableTool]:
        return ()

    def starting(self, name: str) -> bool:
        del name
        return False
