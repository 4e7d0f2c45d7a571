"""``navi export``, ``navi import`` and ``navi keys``."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct

from navi import __version__
from navi.adapters.files.export_file import lines_of, whole_file
from navi.adapters.signing import KnownKey, known_keys, open_signer, verify_signature
from navi.adapters.system import SystemClock
from navi.application.audit.export_sessions import ExportSessions
from navi.application.audit.import_sessions import Imported, ImportSessions
from navi.bootstrap.accounts import account_services
from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import Store, attached_store
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
from navi.domain.vocabulary.events import SessionExported
from navi.domain.vocabulary.ids import SessionId
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.http.requests.validation import session_of
from navi.settings import Settings


class Exported(Struct, frozen=True, kw_only=True):
    """What was written to a file."""

    output: str
    bytes: int
    public_key: str


class Keys(Struct, frozen=True, kw_only=True):
    """Who signs here, and whose signatures are trusted beside."""

    public_key: str
    known: tuple[KnownKey, ...]


@click.command(
    epilog="\b\nExamples:\n"
    "  navi export SESSION > session.jsonl\n"
    "  navi export --all --output everything.jsonl"
)
@click.argument("sessions", metavar="SESSION...", nargs=-1)
@click.option("--all", "whole", is_flag=True, help="Every session of the log.")
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE."
)
@data_dir_option
@json_option
def export(
    sessions: tuple[str, ...], whole: bool, output: Path | None, data_dir: str | None, as_json: bool
) -> None:
    """Write sessions as JSON Lines, signed; to standard output, or to a file that then is whole.

    Every event is its envelope with its salt, digest and hash, so that anybody can check it;
    what a session was forked from comes with it. With --json and --output a line says what was written.
    """
    if whole == bool(sessions):
        raise WrongUsage("name the sessions to export, or --all")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    chosen = None if whole else tuple(dict.fromkeys(sessions))
    run(settings, _export(settings, chosen, output=output, as_json=as_json))


async def _export(
    settings: Settings,
    sessions: Sequence[str] | None,
    *,
    output: Path | None,
    as_json: bool,
) -> int:
    session_ids = None if sessions is None else [session_of(session) for session in sessions]
    signer = await asyncio.to_thread(open_signer, settings.keys_dir)
    async with attached_store(settings) as store:
        exporting = ExportSessions(
            store.log,
            store.texts,
            signer,
            SystemClock(),
            log_id=store.log.log_id,
            version=__version__,
        )
        await _write_down(settings, store, session_ids)
        pieces = exporting.export(session_ids)
        if output is None:
            await write(pieces, sys.stdout.buffer)
            return HOLDS
        with whole_file(output) as file:
            size = await write(pieces, file)
    if as_json:
        print_json(Exported(output=str(output), bytes=size, public_key=signer.public_key))
    return HOLDS


async def _write_down(
    settings: Settings, store: Store, session_ids: Sequence[SessionId] | None
) -> None:
    """Write into the audit log what is about to be exported; one event for all of it."""
    accounts = account_services(settings, store, command_services(settings, store))
    for session_id in (None,) if session_ids is None else session_ids:
        await accounts.audit_log.write(
            SessionExported(by=CLI_ACTOR.by, address=CLI_ACTOR.address, session_id=session_id)
        )


async def write(pieces: AsyncGenerator[bytes, None], file: BinaryIO) -> int:
    """Write the pieces; gives how many bytes they were."""
    size = 0
    async with aclosing(pieces):
        async for piece in pieces:
            # A reader of the output may be slow: that is its time, not the event loop's.
            size += await asyncio.to_thread(file.write, piece)
    await asyncio.to_thread(file.flush)
    return size


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


async def warn_of_stranger(settings: Settings, public_key: str) -> None:
    """Warn on standard error if the signer is neither this navi nor trusted."""
    keys = await asyncio.to_thread(_keys, settings)
    if public_key in (keys.public_key, *(known.public_key for known in keys.known)):
        return
    click.echo(
        f"navi: warning: the signer is not known: {public_key}\n"
        f"  If you trust it: echo {public_key} > {settings.keys_dir / 'known' / 'NAME.pub'}",
        err=True,
    )


@click.command()
@data_dir_option
@json_option
def keys(data_dir: str | None, as_json: bool) -> None:
    """Print the public key that signs here, and those that are trusted beside it.

    To trust another signer, put its public key, in hex, into keys/known/NAME.pub of the data directory.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _print_keys(settings, as_json=as_json))


async def _print_keys(settings: Settings, *, as_json: bool) -> int:
    found = await asyncio.to_thread(_keys, settings)
    if as_json:
        print_json(found)
        return HOLDS
    click.echo(f"{found.public_key}  this navi")
    for known in found.known:
        click.echo(f"{known.public_key}  {known.name}")
    return HOLDS


def _keys(settings: Settings) -> Keys:
    signer = open_signer(settings.keys_dir)
    return Keys(public_key=signer.public_key, known=known_keys(settings.keys_dir))
