"""The chat prompt: line editing with history, slash commands."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path

from msgspec import Struct
from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from navi.cli.chat.conversation import Conversation
from navi.cli.chat.dialogue import Dialogue, Locate, max_iterations
from navi.cli.chat.look_back import show_memories, show_output, show_thinking
from navi.cli.chat.person import at_terminal
from navi.cli.chat.prompt_line import Completions, chat_lines, is_command
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.printable import as_utf8, come_back, one_line, printable
from navi.cli.shared.remote import RemoteNavi, RemoteSession
from navi.domain.vocabulary.errors import NotFound

LISTED = 20  # sessions that /sessions shows
RECALLED = 6  # messages shown when a session is gone on with
NAME_CHARACTERS = 60

HELP = """\
/new [PROFILE]    begin a new session
/sessions         list the latest sessions; /open ID goes on in one
/profile [ID]     list the profiles, or give this session another one
/think            what the agent thought last
/out [N]          what a tool gave, in full: 1 is the last call, 2 the one before
/memories         what navi remembers of you
/stop             stop what the agent does in this session
/help             this
/quit             leave (or Ctrl-D)

Enter sends, Alt-Enter begins another line, Tab completes commands, what they take, and the
session's files. Ctrl-C stops the agent while it works, and clears the line at the prompt. What you type while it
works stands at the next prompt, and is sent there where you pressed Enter."""
COMMANDS = (
    *("/new", "/sessions", "/open", "/profile", "/think", "/out", "/memories"),
    *("/stop", "/help", "/quit"),
)


class Stay(Struct, frozen=True):
    """Go on in the same session."""


class Move(Struct, frozen=True):
    """Go on in another session."""

    session: RemoteSession


class Leave(Struct, frozen=True):
    """The user has had enough."""


Next = Stay | Move | Leave


async def talk(navi: RemoteNavi, session: RemoteSession, locate: Locate, *, history: Path) -> None:
    """Chat until the user leaves.

    Args:
        history: file that keeps the lines, readable by its owner only.
    """
    console = Console()
    words = _Words()
    completions = Completions(COMMANDS, words.known)
    lines = chat_lines(await asyncio.to_thread(_history, history), completions)
    console.print(Text("/help lists the commands, Ctrl-D leaves.", style="dim"))
    while True:
        await _recall(navi, session, console)
        await words.learn(navi, session)
        try:
            going = await _talk_in(navi, session, locate, lines, words, console)
        except KeyboardInterrupt:
            console.print(Text(come_back(session.id), style="dim"))
            raise
        match going:
            case Move(session=session):
                continue
            case Leave():
                console.print(Text(come_back(session.id), style="dim"))
                return
            case Stay():
                continue


async def _talk_in(
    navi: RemoteNavi,
    session: RemoteSession,
    locate: Locate,
    lines: PromptSession[str],
    words: "_Words",
    console: Console,
) -> Next:
    """Chat in one session until another one is wanted."""
    conversation = Conversation(session.id, locate, token=navi.token, after=None)
    async with aclosing(Dialogue(conversation, console, person=at_terminal())) as dialogue:
        dialogue.progress.max_iterations = await max_iterations(navi, session.profile_id)
        try:
            await dialogue.follow_open_turn()
        except CommandFailed as error:
            console.print(Text(printable(str(error)), style="yellow"))
        profile_id = session.profile_id
        while True:
            try:
                line = as_utf8(await lines.prompt_async(_prompt(profile_id))).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return Leave()
            try:
                if not is_command(line):
                    if line:
                        await dialogue.ask(line)
                        await words.learn(navi, session)
                    continue
                match await run_slash_command(line, navi, session, console):
                    case Stay():
                        session = await navi.session(session.id)
                        profile_id = session.profile_id
                    case other:
                        return other
            except (CommandFailed, NotFound) as error:
                console.print(Text(printable(str(error)), style="yellow"))


async def run_slash_command(
    line: str,
    navi: RemoteNavi,
    session: RemoteSession,
    console: Console,
) -> Next:
    """Execute a slash command.

    Raises:
        CommandFailed: it cannot be done.
        NotFound: what it names, or the session itself, is not there.
    """
    command, _, argument = line.partition(" ")
    argument = argument.strip()
    match command:
        case "/quit" | "/exit":
            return Leave()
        case "/new":
            return Move(await navi.create(profile_id=argument or session.profile_id))
        case "/open":
            return Move(await navi.session(argument))
        case "/sessions":
            await _list_sessions(navi, session, console)
        case "/profile" if argument:
            switched = await navi.switch_profile(session.id, argument)
            console.print(Text(f"the profile is now {switched.profile_id}", style="dim"))
        case "/profile":
            await _list_profiles(navi, session, console)
        case "/think":
            await show_thinking(navi, session.id, console)
        case "/out":
            await show_output(navi, session.id, argument, console)
        case "/memories":
            await show_memories(navi, console)
        case "/stop":
            await navi.stop(session.id)
        case "/help":
            console.print(Text(HELP))
        case _:
            raise CommandFailed(f"there is no command {command}; /help lists them")
    return Stay()


class _Words:
    """What may be completed; asked for after each turn, and not at each key."""

    def __init__(self) -> None:
        self._by_command: dict[str, Mapping[str, str]] = {}

    def known(self, command: str) -> Mapping[str, str]:
        """What a command takes, with what each is; for "" the session's files."""
        return self._by_command.get(command, {})

    async def learn(self, navi: RemoteNavi, session: RemoteSession) -> None:
        """Ask what there is now; without an answer what was known stays."""
        with suppress(CommandFailed, NotFound):
            profiles = {one.id: _said(one.description) for one in await navi.profiles()}
            sessions = await navi.sessions(limit=LISTED)
            self._by_command = {
                "/profile": profiles,
                "/new": profiles,
                "/open": {one.id: _said(one.name or "") for one in sessions},
                "": {
                    **dict.fromkeys(await navi.made(session.id), ""),
                    **{file.name: "upload" for file in await navi.files(session.id)},
                },
            }


def _said(text: str) -> str:
    return one_line(text, width=NAME_CHARACTERS)


async def _list_sessions(navi: RemoteNavi, session: RemoteSession, console: Console) -> None:
    for each in await navi.sessions(limit=LISTED):
        mark = "▸" if each.id == session.id else " "
        name = one_line(each.name or "(no name yet)", width=NAME_CHARACTERS)
        running = " (running)" if each.status == "running" else ""
        console.print(Text(f"{mark} {each.id}  {name}{running}"))


async def _list_profiles(navi: RemoteNavi, session: RemoteSession, console: Console) -> None:
    for each in await navi.profiles():
        mark = "▸" if each.id == session.profile_id else " "
        words = each.error or each.description or each.name
        style = "yellow" if each.error is not None else ""
        console.print(Text(f"{mark} {each.id}  {one_line(words, width=100)}", style=style))


async def _recall(navi: RemoteNavi, session: RemoteSession, console: Console) -> None:
    """Show the last messages of the session."""
    shown = [m for m in await navi.messages(session.id) if m.role != "tool" and m.content.strip()]
    for message in shown[-RECALLED:]:
        if message.role == "user":
            console.print(Text(f"> {printable(message.content)}", style="bold"))
        else:
            console.print(Markdown(printable(message.content)))


def _prompt(profile_id: str) -> FormattedText:
    return FormattedText([("ansicyan", profile_id), ("bold", " > ")])


def _history(path: Path) -> History:
    """The history file of the prompt; in memory if it cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
