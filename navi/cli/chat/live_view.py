"""Draw a running turn on a terminal: finished text above, live text and a status line below."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from navi.cli.chat.turn_progress import AgentText, Asked, Shown, StatusLine, TurnProgress
from navi.cli.printable import one_line, printable

FRAME_SECONDS = 0.1  # between two drawings, however fast the model writes
LIVE_CHARACTERS = (
    4_000  # of the text being written that are drawn: a long one would cost more each time
)


class LiveView:
    """Draws a turn; what is printed while it is ``live`` appears above the live part."""

    def __init__(self, console: Console, progress: TurnProgress) -> None:
        self.console = console
        self._progress = progress

    @asynccontextmanager
    async def live(self) -> AsyncGenerator[None, None]:
        """Draw the live part until the block ends."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            drawing = asyncio.create_task(self._draw(live), name="live view")
            try:
                yield
            finally:
                drawing.cancel()
                await asyncio.wait({drawing})
                live.update(Text(""), refresh=True)

    def show(self, shown: Shown) -> None:
        """Print for good."""
        match shown:
            case AgentText(text=text):
                self.console.print(Markdown(printable(text)))
            case Asked(text=text):
                self.console.print(Text(f"> {printable(text)}", style="bold"))
            case StatusLine(text=text, good=True):
                self.console.print(Text(f"✓ {printable(text)}", style="dim"))
            case StatusLine(text=text):
                self.console.print(Text(f"✗ {printable(text)}", style="yellow"))

    async def _draw(self, live: Live) -> None:
        while True:
            live.update(self.picture(), refresh=True)
            await asyncio.sleep(FRAME_SECONDS)

    def picture(self) -> RenderableType:
        """The live part: the end of the text or of the thinking, and the status line."""
        progress = self._progress
        rows = max(4, self.console.height - 4)
        parts: list[RenderableType] = []
        if progress.text:
            end = printable(progress.text[-LIVE_CHARACTERS:])
            parts.append(Markdown("\n".join(end.splitlines()[-rows:])))
        elif progress.thinking:
            width = max(20, self.console.width - 2)
            end = progress.thinking[-width:]
            parts.append(Text(one_line(end, width=width), style="dim italic"))
        parts.append(Text(one_line(progress.status, width=self.console.width), style="cyan"))
        return Group(*parts)
