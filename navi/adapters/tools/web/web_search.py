"""The tool ``web_search``: what a SearXNG finds."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.web.material import fenced
from navi.adapters.tools.web.preview import search_preview
from navi.adapters.tools.web.process import WebProcesses
from navi.adapters.tools.web.searxng import request_of
from navi.adapters.tools.web.wire import RequestFailed, Results, Search
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolResult


class WebSearchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    query: Annotated[str, Meta(min_length=1, max_length=1_000)]


class WebSearchTool(TypedTool[WebSearchArguments]):
    """Finds pages by a SearXNG; the operator says which."""

    def __init__(self, processes: WebProcesses, *, server: str) -> None:
        super().__init__(
            WebSearchArguments,
            name="web_search",
            description="Searches the web: titles, addresses, excerpts; web_fetch reads a page.",
            safe_to_repeat=True,
        )
        self._processes = processes
        self._server = server

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The request, without what the server lets navi in by."""
        del workspace
        args = parse_arguments(WebSearchArguments, arguments)
        url, _ = request_of(Search(server=self._server, query=args.query))
        return search_preview(url)

    async def perform(self, arguments: WebSearchArguments, context: ToolContext) -> ToolResult:
        """Search."""
        request = Search(server=self._server, query=arguments.query)
        match await self._processes.ask(request, context.stop, answer=Results):
            case RequestFailed() as failed:
                return ToolResult(outcome=failed.outcome, output=failed.why)
            case Results() as results:
                return ToolResult(outcome="ok", output=fenced(results.text))
