"""``navi audit``: who did what."""

from contextlib import aclosing
from typing import cast

import click
import msgspec

from navi.bootstrap.store import attached_store
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_line,
    run,
    settings_of,
    width_of_output,
)
from navi.cli.shared.printable import one_line
from navi.domain.vocabulary.events import AUDIT_TYPES, JsonObject
from navi.domain.vocabulary.ids import AUDIT_STREAM
from navi.ports.event_log import Recorded
from navi.settings import Settings

WIDEST = 10_000  # characters of a line that nobody watches


@click.command(epilog="\b\nExamples:\n  navi audit\n  navi audit --after 100 --json")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only what has a larger seq.")
@click.option("--limit", type=click.IntRange(1, 10_000), help="How many at the most.")
@data_dir_option
@json_option
def audit(after: int, limit: int | None, data_dir: str | None, as_json: bool) -> None:
    """Print the audit log, oldest first: sign-ins, tokens, users, what admins read.

    With --json an envelope a line. Without accounts nothing is written to it.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _audit(settings, after=after, limit=limit, as_json=as_json))


async def _audit(settings: Settings, *, after: int, limit: int | None, as_json: bool) -> int:
    printed = 0
    async with (
        attached_store(settings) as store,
        aclosing(store.log.read(AUDIT_STREAM, after=after)) as batches,
    ):
        async for batch in batches:
            for row in batch:
                if row.type in AUDIT_TYPES and (limit is None or printed < limit):
                    print_line(row.wire if as_json else _line(row).encode())
                    printed += 1
    return HOLDS


def _line(row: Recorded) -> str:
    data: JsonObject = msgspec.json.decode(row.data, type=JsonObject)
    by, address = data.pop("by", None), data.pop("address", None)
    who = f"{by or 'somebody'}{'' if address is None else f' from {address}'}"
    about = " ".join(f"{name}={_words(value)}" for name, value in data.items() if value is not None)
    line = f"{row.seq:>6}  {row.at:%Y-%m-%d %H:%M:%S}  {row.type:<16}  {who}  {about}"
    return one_line(line, width=width_of_output() or WIDEST)


def _words(value: object) -> str:
    """A value as people write it: scopes and changed fields as ``read+chat``, all else as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "+".join(map(str, cast("list[object]", value)))
    return msgspec.json.encode(value).decode()
