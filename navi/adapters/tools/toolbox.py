"""The tools of this process: built-in, the application's, and the user's own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from navi.adapters.tools.filesystem import FilesystemTool
from navi.adapters.tools.memory import MemoryTool, Remembering
from navi.adapters.tools.own_tools.own_tools import OwnTools
from navi.adapters.tools.own_tools.pool import ToolTimeouts
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.scratchpad import ScratchpadTool
from navi.adapters.tools.spawn_agent import SpawnAgentTool
from navi.adapters.tools.switch_profile import SwitchProfileTool
from navi.adapters.tools.todo import TodoTool
from navi.adapters.tools.view_image import ViewImageTool
from navi.adapters.tools.web.process import WebAccess
from navi.adapters.tools.web.web_fetch import WebFetchTool
from navi.adapters.tools.web.web_search import WebSearchTool
from navi.ports.tools import Tool, ToolSource, UnavailableTool


class ToolPorts(Struct, frozen=True, kw_only=True):
    """What built-in tools work with; without it they are not available."""

    remembering: Remembering | None = None
    web: WebAccess | None = None


def _memory(ports: ToolPorts) -> Tool | UnavailableTool:
    if ports.remembering is None:
        return UnavailableTool(name="memory", reason="nothing is remembered here")
    return MemoryTool(ports.remembering)


def _web_fetch(ports: ToolPorts) -> Tool | None:
    return (
        None if ports.web is None else WebFetchTool(ports.web.processes, allowed=ports.web.allowed)
    )


def _web_search(ports: ToolPorts) -> Tool | None:
    """None where no server is named: then there is no such tool, and nothing that is missing."""
    if ports.web is None or ports.web.searxng is None:
        return None
    return WebSearchTool(ports.web.processes, server=ports.web.searxng)


# In the order in which they are offered.
BUILT_IN: tuple[Callable[[ToolPorts], Tool | UnavailableTool | None], ...] = (
    lambda _: FilesystemTool(),
    lambda _: ViewImageTool(),
    lambda _: TodoTool(),
    lambda _: ScratchpadTool(),
    lambda _: SpawnAgentTool(),
    lambda _: SwitchProfileTool(),
    _memory,
    _web_fetch,
    _web_search,
)


class Tools:
    """The port ``ToolBox``; an async context manager that owns the processes of own tools."""

    def __init__(
        self,
        ports: ToolPorts,
        *,
        own_tools: Path,
        environment: Mapping[str, str],
        variables: Sequence[str] = (),
        sources: Sequence[ToolSource] = (),
        timeouts: ToolTimeouts | None = None,
    ) -> None:
        """Name what there is; nothing is loaded yet.

        Args:
            own_tools: directory of the user's own tools; it may be missing.
            environment: the server's; own tools get the few variables of it that programs need.
            variables: those of it that own tools get besides.
            sources: of tools that come and go.
            timeouts: how long own tools may take.
        """
        built_in = [one for build in BUILT_IN if (one := build(ports)) is not None]
        self._unavailable = tuple(one for one in built_in if isinstance(one, UnavailableTool))
        offered = [one for one in built_in if not isinstance(one, UnavailableTool)]
        self._tools: dict[str, Tool] = {tool.description.name: tool for tool in offered}
        self._sources = tuple(sources)
        self._own = OwnTools(
            own_tools,
            environment=environment,
            variables=variables,
            taken=(*self._tools, *(one.name for one in self._unavailable)),
            timeouts=timeouts or ToolTimeouts(),
        )

    async def __aenter__(self) -> Self:
        await self._own.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._own.__aexit__(None, None, None)

    @property
    def problems(self) -> tuple[LoadProblem, ...]:
        """Files of own tools, and functions in them, that were left out, and why."""
        return self._own.problems

    async def look(self) -> None:
        """Load own tools again where their files have changed."""
        await self._own.look()

    def all(self) -> tuple[Tool, ...]:
        """The tools in the order in which they are offered: those that stay first."""
        return tuple(self._now().values())

    def unavailable(self) -> tuple[UnavailableTool, ...]:
        """The tools that this process should offer and cannot."""
        missing = (one for source in self._sources for one in source.unavailable())
        left_out = (UnavailableTool(name=p.file, reason=p.error) for p in self.problems)
        return (*self._unavailable, *left_out, *missing)

    def find(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._now().get(name)

    def starting(self, name: str) -> bool:
        """Whether a tool of that name may soon come."""
        return self.find(name) is None and any(source.starting(name) for source in self._sources)

    def _now(self) -> Mapping[str, Tool]:
        there = self._tools | {tool.description.name: tool for tool in self._own.tools}
        tools = (tool for source in self._sources for tool in source.tools())
        come = {tool.description.name: tool for tool in tools}
        return there | {name: tool for name, tool in come.items() if name not in there}
