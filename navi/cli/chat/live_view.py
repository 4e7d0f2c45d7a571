"""Draw a running turn on a terminal: finished text above, live text and a status line below."""

import asyncio
import sys
import termios
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from navi.cli.chat.turn_progress import (
    AgentText,
    ApprovalQuestion,
    Output,
    PersonText,
    Preview,
    Shown,
    StatusLine,
    TurnProgress,
)
from navi.cli.shared.printable import one_line, printable

FRAME_SECONDS = 0.1  # between two drawings, however fast the model writes
LIVE_CHARACTERS = (
    4_000  # of the text being written that are drawn: a long one would cost more each time
)


class LiveView:
    """Draws a turn; what is printed while it is ``live`` appears above the live part."""

    def __init__(self, console: Console, progress: TurnProgress) -> None:
        self.console = console
        self._progress = progress
        self._live: Live | None = None

    @asynccontextmanager
    async def live(self) -> AsyncGenerator[None, None]:
        """Draw the live part until the block ends."""
        if not self.console.is_terminal:
            yield
            return
        with (
            typing_ahead(),
            Live(console=self.console, auto_refresh=False, transient=True) as live,
        ):
            self._live = live
            drawing = asyncio.create_task(self._draw(live), name="live view")
            try:
                yield
            finally:
                self._live = None
                drawing.cancel()
                await asyncio.wait({drawing})
                live.update(Text(""), refresh=True)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Draw no live part until the block ends: somebody types there."""
        live, self._live = self._live, None
        if live is not None:
            live.update(Text(""), refresh=True)
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()
            self._live = live

    def show(self, shown: Shown) -> None:
        """Print for good."""
        match shown:
            case AgentText(text=text):
                self.console.print(Markdown(printable(text)))
            case PersonText(text=text):
                self.console.print(Text(f"> {printable(text)}", style="bold"))
            case ApprovalQuestion(text=text):
                self.console.print(Text(f"? {printable(text)}", style="bold yellow"))
            case Preview(text=text):
                self.console.print(_coloured(printable(text)))
            case Output(text=text):
                self.console.print(_indented(text))
            case StatusLine(text=text, good=True):
                self.console.print(Text(f"✓ {printable(text)}", style="dim"))
            case StatusLine(text=text):
                self.console.print(Text(f"✗ {printable(text)}", style="yellow"))

    async def _draw(self, live: Live) -> None:
        while True:
            if self._live is live:
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
        if progress.output:
            parts.append(_indented(progress.output))
        parts.append(Text(one_line(progress.status, width=self.console.width), style="cyan"))
        return Group(*parts)


@contextmanager
def typing_ahead() -> Generator[None, None, None]:
    """Keep what is typed meanwhile for the next prompt, and off the screen, which is being drawn."""
    try:
        before = termios.tcgetattr(sys.stdin.fileno())
    except (OSError, ValueError, termios.error):  # no terminal to type at
        yield
        return
    quiet = [*before]
    quiet[3] = before[3] & ~(termios.ECHO | termios.ICANON)  # of the local modes
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


def _coloured(preview: str) -> Text:
    """A preview; lines that come and go, in a difference, as such."""
    text = Text(style="cyan")
    for line in preview.splitlines(keepends=True):
        style = {"+": "green", "-": "red"}.get(line[:1], "")
        text.append(line, style=style)
    return text


def _indented(output: str) -> Text:
    """What a tool has put out, below its line."""
    lines = (f"    {printable(line)}" for line in output.splitlines())
    return Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis")
