"""``navi fork``: fork a session at an event."""

import click

from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import attached_store
from navi.cli.reading.named_session import seq_type
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    words_type,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.model import context_windows
from navi.cli.shared.owners import note_reading
from navi.cli.shared.remote import session_path
from navi.domain.vocabulary.ids import SessionId, parse_session_id
from navi.http.api.forks import Fork, ForkAnswer, fork_answer
from navi.http.requests.validation import check_session_name
from navi.settings import Settings


@click.command(
    epilog="\b\nExamples:\n"
    "  navi fork SESSION --at 17               try again from event 17\n"
    "  navi chat --session $(navi fork SESSION --at 17 --json | jq -r .id)"
)
@click.argument("session", metavar="SESSION")
@click.option("--at", type=seq_type, help="The last event that both share; else all of them.")
@click.option(
    "--name", type=words_type, help="What to call it; else as the origin was called then."
)
@data_dir_option
@json_option
def fork(
    session: str, at: int | None, name: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Make a session that goes on from an event of SESSION, which stays as it is.

    Where a model or tool call is open at that event, it begins at the nearest event before it at
    which none is. Its files are a copy of those that SESSION has now.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _fork(settings, session, at=at, name=name, as_json=as_json))


async def _fork(
    settings: Settings, session: str, *, at: int | None, name: str | None, as_json: bool
) -> int:
    origin = parse_session_id(session)
    if name is not None:
        check_session_name("--name", name)
    made = await _made(settings, origin, at=at, name=name)
    if as_json:
        print_json(made)
    else:
        _print(made)
    return HOLDS


async def _made(
    settings: Settings, origin: SessionId, *, at: int | None, name: str | None
) -> ForkAnswer:
    if settings.navi_url is not None:
        async with elsewhere(settings) as navi:
            if at is None:
                at = (await navi.session(origin)).seq
            body = Fork(at=at, name=name)
            return await navi.ask("POST", f"{session_path(origin)}/fork", ForkAnswer, body)
    async with attached_store(settings) as store:
        await note_reading(settings, store, (origin,))
        services = command_services(settings, store)
        forked = await services.fork_session(origin, at=at, name=name)
    [window] = await context_windows(settings, (forked.session,))
    return fork_answer(forked, window)


def _print(made: ForkAnswer) -> None:
    assert made.forked_from is not None  # noqa: S101 - it is a fork
    origin = made.forked_from
    line = f"{made.id}  forked from {origin.session_id} at {origin.seq}"
    if origin.seq != made.requested_seq:
        line += f", since a call was open at {made.requested_seq}"
    click.echo(line)
    if made.files_left_out:
        click.echo(f"navi: {made.files_left_out} files were left out", err=True)
