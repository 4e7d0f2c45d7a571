"""``navi chat``: talk to a running navi in the terminal."""

import sys
from contextlib import aclosing
from typing import Literal

import click
from msgspec import Struct
from rich.console import Console

from navi.cli.chat.conversation import Conversation, check_message
from navi.cli.chat.dialogue import Dialogue, Locate, max_iterations
from navi.cli.chat.person import at_terminal
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    CommandFailed,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    words_type,
)
from navi.cli.shared.printable import come_back, printable
from navi.cli.shared.remote import RemoteNavi, RemoteSession, open_remote
from navi.cli.shared.running import find_running, version_at
from navi.domain.vocabulary.events import ApprovalRequested
from navi.domain.vocabulary.ids import SessionId
from navi.settings import Settings

MAX_STDIN_BYTES = 16 * 1024 * 1024  # of what may have no end; far more than a message may have


class Answered(Struct, frozen=True, kw_only=True):
    """The outcome of a turn as ``--json`` prints it: that of ``POST .../messages``, and the session."""

    session_id: SessionId
    turn_id: str | None
    outcome: Literal["completed", "stopped", "failed"]
    content: str
    seq: int


@click.command(
    epilog="\b\nExamples:\n"
    '  navi chat "What is in my files?"\n'
    "  git diff | navi chat                       standard input is the message\n"
    "  navi chat --session ID                     go on where you were"
)
@click.argument("message", required=False, type=words_type)
@click.option("--session", metavar="ID", help="Go on in this session instead of a new one.")
@click.option("--profile", metavar="ID", type=words_type, help="The profile to talk to.")
@click.option("--url", metavar="URL", help="Address of a navi on another machine (NAVI_URL).")
@data_dir_option
@json_option
def chat(
    message: str | None,
    session: str | None,
    profile: str | None,
    url: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Talk to a running navi; with MESSAGE ask once and print the answer.

    While the agent works Ctrl-C stops it; at the prompt Ctrl-C clears the line and Ctrl-D leaves.
    """
    settings = settings_of(data_dir=data_dir, url=url)
    log_to_stderr(settings, level="warning")
    if message is None and not sys.stdin.isatty():
        message = _standard_input()
    if message is not None and not message.strip():
        raise WrongUsage("there is no message")
    if message is None and as_json:
        raise WrongUsage("--json needs a MESSAGE")
    choice = ChatTarget(session_id=session, profile_id=profile)
    run(settings, _chat(settings, message, choice, as_json=as_json))


def _standard_input() -> str:
    # Not by the locale: what is piped is a file of whatever encoding, and most are UTF-8.
    text = sys.stdin.buffer.read(MAX_STDIN_BYTES).decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class ChatTarget(Struct, frozen=True, kw_only=True):
    """Where to talk, and to whom; None for a new session and for the default profile."""

    session_id: str | None
    profile_id: str | None


async def _chat(
    settings: Settings, message: str | None, choice: ChatTarget, *, as_json: bool
) -> int:
    url = settings.navi_url
    locate = locator(settings)
    address = await locate()
    if address is None:
        raise CommandFailed(
            "navi does not run here; start it with `navi serve`"
            if url is None
            else f"there is no navi at {url}"
        )
    async with open_remote(address, token=settings.navi_token) as navi:
        if message is not None:
            check_message(message)  # before a session is made for it
        session = await choose_session(navi, choice)
        if message is None:
            # Only here: loading it takes longer than a short answer.
            from navi.cli.chat.prompt_loop import talk

            await talk(navi, session, locate, history=settings.data_dir / "chat_history")
            return HOLDS
        return await _ask_once(navi, session, locate, message, as_json=as_json)


def locator(settings: Settings) -> Locate:
    """Find navi's address: the one of the settings, or that of the running navi."""

    async def locate() -> str | None:
        if settings.navi_url is not None:
            there = await version_at(settings.navi_url)
            return None if there is None else settings.navi_url
        running = await find_running(settings)
        return None if running is None else running.http_url

    return locate


async def choose_session(navi: RemoteNavi, choice: ChatTarget) -> RemoteSession:
    """The chosen session, or a new one."""
    if choice.session_id is None:
        return await navi.create(profile_id=choice.profile_id)
    session = await navi.session(choice.session_id)
    if choice.profile_id is None or choice.profile_id == session.profile_id:
        return session
    return await navi.switch_profile(session.id, choice.profile_id)


class _Waiting:
    """Prints on standard error why there is no connection, each reason once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            words = f"navi: no connection ({printable(reason)}); waiting for navi to come back"
            click.echo(words, err=True)


def _tell_what_waits(requested: ApprovalRequested) -> None:
    words = f"navi: {requested.name} waits for a decision: navi approvals allow {requested.call_id}"
    click.echo(printable(words), err=True)


async def _ask_once(
    navi: RemoteNavi,
    session: RemoteSession,
    locate: Locate,
    message: str,
    *,
    as_json: bool,
) -> int:
    # Only what a person watches is drawn, and never into a pipe.
    watched = sys.stdout.isatty() and not as_json
    console = Console() if watched else Console(stderr=True, quiet=True)
    conversation = Conversation(session.id, locate, token=navi.token, after=None)
    dialogue = Dialogue(
        conversation,
        console,
        lost=None if watched else _Waiting(),
        person=at_terminal() if watched and sys.stdin.isatty() else None,
        waits=None if watched else _tell_what_waits,
    )
    async with aclosing(dialogue):
        dialogue.progress.max_iterations = await max_iterations(navi, session.profile_id)
        try:
            outcome = await dialogue.ask(message)
        except KeyboardInterrupt:
            click.echo(come_back(session.id), err=True)
            raise
    if as_json:
        print_json(
            Answered(
                session_id=session.id,
                turn_id=outcome.turn_id,
                outcome=outcome.outcome,
                content=outcome.content,
                seq=outcome.seq,
            )
        )
    elif outcome.outcome == "completed" and not watched:
        click.echo(outcome.content)
        for text in dialogue.progress.shortcomings:
            click.echo(f"navi: {text}", err=True)
    elif watched:
        click.secho(f"session {session.id}", dim=True, err=True)
    if outcome.outcome != "completed" and not watched:  # else it was shown
        words = (
            f"the turn was {outcome.outcome}" if outcome.outcome == "stopped" else outcome.content
        )
        click.echo(f"navi: {printable(words)}", err=True)
    return HOLDS if outcome.outcome == "completed" else DOES_NOT_HOLD
