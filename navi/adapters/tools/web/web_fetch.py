"""The tool ``web_fetch``: a page of the web as Markdown."""

import asyncio
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from navi.adapters.tools.arguments import parse_arguments
from navi.adapters.tools.typed_tool import TypedTool
from navi.adapters.tools.web.fetch import phrase_of
from navi.adapters.tools.web.material import fenced
from navi.adapters.tools.web.preview import fetch_preview
from navi.adapters.tools.web.process import WebProcesses
from navi.adapters.tools.web.wire import FetchPage, Page, RequestFailed
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import ToolContext, ToolResult

FIRST_ERROR = 400  # of the statuses of HTTP


class WebFetchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model may ask for."""

    url: Annotated[str, Meta(max_length=8_192)]
    start: Annotated[int, Meta(ge=0)] | None = None


class WebFetchTool(TypedTool[WebFetchArguments]):
    """Reads public pages; 64 KiB of text a call."""

    def __init__(self, processes: WebProcesses, *, allowed: str) -> None:
        """Take what may be reached although it is private, as the setting says it."""
        super().__init__(
            WebFetchArguments,
            name="web_fetch",
            description="Reads a web page, PDF, JSON or text.",
            safe_to_repeat=True,
        )
        self._processes = processes
        self._allowed = allowed

    async def preview(self, arguments: JsonObject, workspace: Path) -> str:
        """The request, and which addresses it may reach."""
        del workspace
        args = parse_arguments(WebFetchArguments, arguments)
        start = args.start or 0
        return await asyncio.to_thread(fetch_preview, args.url, start=start, allowed=self._allowed)

    async def perform(self, arguments: WebFetchArguments, context: ToolContext) -> ToolResult:
        """Get the page."""
        request = FetchPage(url=arguments.url, start=arguments.start or 0, allowed=self._allowed)
        match await self._processes.ask(request, context.stop, answer=Page):
            case RequestFailed() as failed:
                return ToolResult(outcome=failed.outcome, output=failed.why)
            case Page() as page:
                outcome = "ok" if page.status < FIRST_ERROR else "error"
                return ToolResult(outcome=outcome, output=shown(page))


def shown(page: Page) -> str:
    """A page as the model reads it."""
    end = page.start + len(page.text)
    whole = len(page.text) == page.total
    part = "" if whole else f", characters {page.start:,} to {end:,} of {page.total:,}"
    lines = [f"{page.url} ({phrase_of(page.status)}, {page.kind}{part})"]
    lines.append(fenced(page.text) if page.text else "It has no text.")
    if page.remark:
        lines.append(f"[{page.remark}]")
    if end < page.total:
        lines.append(f"[More follows: go on with start={end}.]")
    return "\n".join(lines)
