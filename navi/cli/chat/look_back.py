"""What a chat shows on demand: the last thinking, outputs of tools in full, memories."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from navi.cli.shared.command import CommandFailed
from navi.cli.shared.printable import printable
from navi.cli.shared.remote import RemoteMessage, RemoteNavi


async def show_thinking(navi: RemoteNavi, session_id: str, console: Console) -> None:
    """What the agent thought last, as far as its model tells.

    Raises:
        CommandFailed: nothing was thought.
    """
    messages = await navi.messages(session_id)
    thoughts = [message.thinking for message in messages if message.thinking]
    if not thoughts:
        raise CommandFailed("nothing was thought in this session")
    console.print(Text(printable(thoughts[-1] or ""), style="dim italic"))


async def show_output(navi: RemoteNavi, session_id: str, which: str, console: Console) -> None:
    """The output of a tool in full: 1 is the last call, 2 the one before it.

    Raises:
        CommandFailed: there is none such.
    """
    outputs = [message for message in await navi.messages(session_id) if message.role == "tool"]
    wanted = nth_last(outputs, which)
    console.print(Text(printable(wanted.name or "tool"), style="bold"))
    console.print(Text(printable(wanted.content)))


def nth_last(outputs: Sequence[RemoteMessage], which: str) -> RemoteMessage:
    """One of some outputs, counted from the end; the last one for an empty text."""
    if not outputs:
        raise CommandFailed("no tool was called in this session")
    number = which or "1"
    if not number.isdecimal() or not 1 <= int(number) <= len(outputs):
        raise CommandFailed(f"/out takes 1 (the last output) to {len(outputs)}")
    return outputs[-int(number)]


async def show_memories(navi: RemoteNavi, console: Console) -> None:
    """What navi remembers of the user."""
    memories = await navi.memories()
    for memory in memories:
        console.print(Text(f"{memory.id}  {printable(memory.text)}"))
    if not memories:
        console.print(Text("nothing is remembered", style="dim"))
