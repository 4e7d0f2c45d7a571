"""The tools of this process: built-in, the application's, and the user's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from navi.adapters.tools.filesystem import FilesystemTool
from navi.adapters.tools.own_tools.own_tools import OwnTools, ToolTimeouts
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.scratchpad import ScratchpadTool
from navi.adapters.tools.spawn_agent import SpawnAgentTool
from navi.adapters.tools.switch_profile import SwitchProfileTool
from navi.adapters.tools.todo import TodoTool
from navi.ports.tools import Tool


class Tools:
    """The port ``ToolBox``; an async context manager that owns the processes of own tools."""

    def __init__(
        self,
        *,
        own_tools: Path,
        environment: Mapping[str, str],
        more: Sequence[Tool] = (),
        timeouts: ToolTimeouts | None = None,
    ) -> None:
        """Name what there is; nothing is loaded yet.

        Args:
            own_tools: directory of the user's own tools; it may be missing.
            environment: the server's; own tools get the few variables of it that programs need.
            more: built-in tools that other parts bring along.
            timeouts: how long own tools may take.
        """
        self._tools: dict[str, Tool] = {
            tool.description.name: tool
            for tool in (
                FilesystemTool(),
                TodoTool(),
                ScratchpadTool(),
                SpawnAgentTool(),
                SwitchProfileTool(),
                *more,
            )
        }
        self._own = OwnTools(
            own_tools,
            environment=environment,
            taken=tuple(self._tools),
            timeouts=timeouts or ToolTimeouts(),
        )

    async def __aenter__(self) -> Self:
        own = await self._own.__aenter__()
        self._tools.update({tool.description.name: tool for tool in own.tools})
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._own.__aexit__(None, None, None)

    @property
    def problems(self) -> tuple[LoadProblem, ...]:
        """Files of own tools that were left out, and why."""
        return self._own.problems

    def all(self) -> tuple[Tool, ...]:
        """The tools in the order in which they are offered: built-in ones first."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)
