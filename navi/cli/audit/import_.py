"""``navi import``: take in the sessions of an export."""

from functools import partial
from pathlib import Path

import click

from navi.adapters.files.export_file import lines_of
from navi.adapters.signing import verify_signature
from navi.application.audit.import_sessions import Imported, ImportSessions
from navi.bootstrap.store import attached_store
from navi.cli.audit.keys import warn_of_stranger
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.settings import Settings


@click.command(
    "import", epilog="\b\nExample:\n  navi export SESSION > s.jsonl; navi import s.jsonl"
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--trust",
    is_flag=True,
    help="Import also what goes on with calls that a stranger says were allowed.",
)
@data_dir_option
@json_option
def import_(file: Path, trust: bool, data_dir: str | None, as_json: bool) -> None:
    """Import the sessions of an export unchanged: ids, seqs and times stay.

    The whole file is checked first. What is damaged, reordered, cut off, or in the log already is
    refused with exit status 1, and nothing is written. A signer that is not known is a warning;
    what would go on at once with calls that its own people have allowed is refused likewise, unless
    --trust.
    """
    if not file.is_file():
        raise WrongUsage(f"FILE: {file} is not a file")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _import(settings, file, trust=trust, as_json=as_json))


async def _import(settings: Settings, file: Path, *, trust: bool, as_json: bool) -> int:
    lines = partial(lines_of, file)
    async with attached_store(settings) as store:
        importing = ImportSessions(store.log, store.texts, verify_signature)
        sound = await importing.look(lines)
        stranger = await warn_of_stranger(settings, sound.header.public_key)
        if stranger and sound.going_on and not trust:
            # What the file says that people have allowed, nobody here has.
            raise CommandFailed(
                f"nothing was imported: session {sound.going_on[0]} would go on with calls that "
                "were allowed by the word of a signer that is not known alone; --trust imports it"
            )
        imported = await importing.write(lines, sound)
    if as_json:
        print_json(imported)
    else:
        _print_imported(imported)
    return HOLDS


def _print_imported(imported: Imported) -> None:
    for session_id in imported.sessions:
        click.echo(session_id)
    click.echo(f"sessions: {len(imported.sessions)}, events: {imported.events}", err=True)
