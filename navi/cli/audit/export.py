"""``navi export``: write sessions as signed JSON Lines."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct

from navi import __version__
from navi.adapters.files.export_file import whole_file
from navi.adapters.signing import open_signer
from navi.adapters.system import SystemClock
from navi.application.audit.export_sessions import ExportSessions
from navi.bootstrap.store import attached_store
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
from navi.cli.shared.owners import note_export
from navi.domain.vocabulary.ids import parse_session_id
from navi.settings import Settings


class Exported(Struct, frozen=True, kw_only=True):
    """What was written to a file."""

    output: str
    bytes: int
    public_key: str


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
    settings.require_here()  # before a key is made
    session_ids = None if sessions is None else [parse_session_id(session) for session in sessions]
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
        await note_export(settings, store, session_ids)
        pieces = exporting.export(session_ids)
        if output is None:
            await write(pieces, sys.stdout.buffer)
            return HOLDS
        with whole_file(output) as file:
            size = await write(pieces, file)
    if as_json:
        print_json(Exported(output=str(output), bytes=size, public_key=signer.public_key))
    return HOLDS


async def write(pieces: AsyncGenerator[bytes, None], file: BinaryIO) -> int:
    """Write the pieces; gives how many bytes they were."""
    size = 0
    async with aclosing(pieces):
        async for piece in pieces:
            # A reader of the output may be slow: that is its time, not the event loop's.
            size += await asyncio.to_thread(file.write, piece)
    await asyncio.to_thread(file.flush)
    return size
