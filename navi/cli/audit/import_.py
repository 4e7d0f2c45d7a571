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
@data_dir_option
@json_option
def import_(file: Path, data_dir: str | None, as_json: bool) -> None:
    """Import the sessions of an export unchanged: ids, seqs and times stay.

    The whole file is checked first. What is damaged, reordered, cut off, or in the log already is
    refused with exit status 1, and nothing is written. A signer that is not known is a warning.
    """
    if not file.is_file():
        raise WrongUsage(f"FILE: {file} is not a file")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _import(settings, file, as_json=as_json))


async def _import(settings: Settings, file: Path, *, as_json: bool) -> int:
    async with attached_store(settings) as store:
        importing = ImportSessions(store.log, store.texts, verify_signature)
        imported = await importing.import_(partial(lines_of, file))
    await warn_of_stranger(settings, imported.signer)
    if as_json:
        print_json(imported)
    else:
        _print_imported(imported)
    return HOLDS


def _print_imported(imported: Imported) -> None:
    for session_id in imported.sessions:
        click.echo(session_id)
    click.echo(f"sessions: {len(imported.sessions)}, events: {imported.events}", err=True)
