"""``navi prune``: prune delta text of finished calls."""

import re
from datetime import timedelta

import click
from msgspec import Struct

from navi.adapters.postgres.vacuum import vacuum
from navi.adapters.system import SystemClock
from navi.application.audit.prune_deltas import prune_deltas
from navi.bootstrap.store import attached_store
from navi.cli.reading.named_session import find_session
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
from navi.domain.vocabulary.event_codec import format_at
from navi.settings import Settings

_AGE = re.compile(r"(\d{1,5})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class PruneAnswer(Struct, frozen=True, kw_only=True):
    """What was pruned, or would be; ``bytes`` of payload, ``before`` as in envelopes."""

    deltas: int
    bytes: int
    before: str
    dry_run: bool


class Age(click.ParamType[timedelta]):
    """A duration such as ``7d``."""

    name = "age"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parse ``7d``, ``12h``, ``30m``, ``45s`` or ``2w``."""
        match = _AGE.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is no age such as 7d, 12h or 30m", param, ctx)
        return timedelta(**{_UNITS[match[2]]: int(match[1])})


@click.command(
    epilog="\b\nExamples:\n"
    "  navi prune --deltas --older-than 7d\n"
    "  navi prune --deltas --older-than 1h --session SESSION --dry-run"
)
@click.option(
    "--deltas", is_flag=True, help="The texts of text_delta, thinking_delta and tool_output_delta."
)
@click.option(
    "--older-than",
    type=Age(),
    required=True,
    metavar="AGE",
    help="Only what is older: a number and s, m, h, d or w.",
)
@click.option("--session", metavar="SESSION", help="Only of this session.")
@click.option("--dry-run", is_flag=True, help="Change nothing, say what would be pruned.")
@data_dir_option
@json_option
def prune(
    deltas: bool,
    older_than: timedelta,
    session: str | None,
    dry_run: bool,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Take away texts that were only shown while they were written.

    Each delta keeps its place, its digest and its call; what was said stands in the reply or the
    result of the call. Calls that have not ended are left alone, and nothing changes in any buffer. Postgres is told
    at once (VACUUM), and uses the space again for what comes.
    """
    if not deltas:
        raise WrongUsage("say what to prune: --deltas")
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    work = _prune(settings, older_than, session=session, dry_run=dry_run, as_json=as_json)
    run(settings, work)


async def _prune(
    settings: Settings,
    older_than: timedelta,
    *,
    session: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    before = SystemClock().now() - older_than
    async with attached_store(settings) as store:
        session_id = None if session is None else (await find_session(store.log, session))[0]
        done = await prune_deltas(store.log, before=before, session_id=session_id, dry_run=dry_run)
        if done.deltas and not dry_run:
            await vacuum(store.database_url)
    if as_json:
        print_json(
            PruneAnswer(
                deltas=done.deltas, bytes=done.bytes, before=format_at(before), dry_run=dry_run
            )
        )
    else:
        verb = "would be pruned" if dry_run else "are pruned"
        click.echo(f"{done.deltas:,} deltas {verb}, {done.bytes:,} bytes of text")
    return HOLDS
