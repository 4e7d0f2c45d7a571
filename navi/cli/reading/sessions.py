"""``navi sessions``: list the sessions."""

from collections.abc import Mapping

import click

from navi.application.reading.list_sessions import list_sessions
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.model import context_windows
from navi.cli.shared.owners import names_of_owners, note_listing, owner_named
from navi.cli.shared.printable import one_line, printable
from navi.domain.vocabulary.ids import Owner
from navi.http.api.sessions import SessionList, session_answer
from navi.settings import Settings

NAME_CHARACTERS = 40


@click.command(
    epilog="\b\nExamples:\n"
    "  navi sessions --json | jq -r '.sessions[0].id'\n"
    "  navi sessions --owner bob             of one user, on the server's machine"
)
@click.option("--limit", type=click.IntRange(1, 10_000), help="How many at the most.")
@click.option(
    "--owner",
    metavar="USER",
    help="Only this user's, else everybody's; of a navi elsewhere `all`, else your own.",
)
@data_dir_option
@json_option
def sessions(limit: int | None, owner: str | None, data_dir: str | None, as_json: bool) -> None:
    """List the sessions: pinned ones first, then the latest; with accounts, whose each is."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _sessions(settings, limit=limit, owner=owner, as_json=as_json))


async def _sessions(
    settings: Settings, *, limit: int | None, owner: str | None, as_json: bool
) -> int:
    names: Mapping[Owner, str] = {}
    if settings.navi_url is not None:
        asked = {"limit": limit, "owner": owner}
        query = {name: value for name, value in asked.items() if value is not None}
        async with elsewhere(settings) as navi:
            page = await navi.ask("GET", "/sessions", SessionList, query=query)
        if owner is not None:
            names = {session.owner: session.owner for session in page.sessions}
    else:
        page, names = await _here(settings, limit=limit, owner=owner, windows=as_json)
    if as_json:
        print_json(page)
    else:
        _print(page, names)
    return HOLDS


async def _here(
    settings: Settings, *, limit: int | None, owner: str | None, windows: bool
) -> tuple[SessionList, Mapping[Owner, str]]:
    """The list of the log here, and the names of its users.

    Args:
        windows: whether model servers are asked for those that no call has told yet.
    """
    async with attached_store(settings) as store:
        whose = await owner_named(store, owner)
        await note_listing(settings, store, whose)
        page = await list_sessions(store.log, store.read_models, owner=whose, limit=limit)
        names = await names_of_owners(store)
    known = tuple(session.context_window for session in page.sessions)
    tokens = await context_windows(settings, page.sessions) if windows else known
    answers = tuple(map(session_answer, page.sessions, tokens))
    return SessionList(sessions=answers, next=page.next), names


def _print(page: SessionList, names: Mapping[Owner, str]) -> None:
    """A line for each session; where there are names, whose each is."""
    if not page.sessions:
        click.echo("There is no session yet; `navi chat` begins one.")
    shown = {each.owner: printable(names.get(each.owner, each.owner)) for each in page.sessions}
    widest = max(map(len, shown.values()), default=0)
    for session in page.sessions:
        active = "" if session.last_active is None else f"{session.last_active:%Y-%m-%d %H:%M}"
        marks = ("*" if session.pinned else " ") + (
            "running" if session.status == "running" else ""
        )
        whose = f"{shown[session.owner]:<{widest}}  " if names else ""
        name = one_line(session.name or "(no name yet)", width=NAME_CHARACTERS)
        origin = session.forked_from
        fork = "" if origin is None else f"  (fork of {origin.session_id} at {origin.seq})"
        click.echo(
            f"{session.id}  {active}  {session.seq:>6} events  {marks:<8} {whose}{name}{fork}"
        )
